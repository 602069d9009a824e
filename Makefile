# make run      plan real models' memory, run the models in it, report
# make test     build and pass all tests
# make build    the tool alone, at build/bin/berth
# make install  the library, the headers, the tool and the Python module, below PREFIX
# make deb      the same as Debian packages, with a shared library, in build/deb
# make bench    the benchmarks, in build/bin
# make docs     the API reference, in build/reference
# make viewer   the page that reads dropped files in the browser, at build/web/berth.html
PRESET ?= release
PREFIX ?= /usr/local
.PHONY: build run test install deb bench docs viewer clean

build:
	scripts/setup.sh
	cmake --preset $(PRESET)
	cmake --build build --target berth_tool

run: build
	scripts/run_models.sh

# The tests of real models need their files; where npm's registry cannot be reached (1) ctest lists them as skipped.
test:
	scripts/setup.sh tests
	cmake --preset $(PRESET)
	cmake --build build
	scripts/fetch_models.sh --all || test $$? = 1
	ctest --test-dir build --output-on-failure --parallel $$(($$(nproc) + 1))

install: build
	cmake --build build --target berth_installed
	cmake --install build --prefix $(PREFIX)

deb:
	scripts/setup.sh deb
	cmake --preset deb
	cmake --build build/deb --target berth_installed
	cd build/deb && cpack

bench:
	scripts/setup.sh
	cmake --preset $(PRESET)
	cmake --build build --target berth_benches

# The configuration looks for Doxygen, so it comes after what installs it.
docs:
	scripts/setup.sh docs
	cmake --preset $(PRESET)
	cmake --build build --target berth_reference

viewer:
	scripts/viewer.sh

clean:
	rm -rf build
