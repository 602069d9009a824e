# Puts the program ENGINE into the page PAGE, where BERTH_ENGINE stands.
file(READ ${PAGE} page)
file(READ ${ENGINE} engine)
string(REPLACE "</script" "<\\/script" engine "${engine}")
string(REPLACE "BERTH_ENGINE</script>" "${engine}</script>" page "${page}")
file(WRITE ${OUT} "${page}")
