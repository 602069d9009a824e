# make build   the tool at build/bin/berth
# make run     plan a real model's memory, run the model in it, report
# make test    build and pass all tests
.PHONY: build run test clean

build:
	scripts/setup.sh
	cmake --preset release
	cmake --build build

run: build
	scripts/run_models.sh

# The tests of real models need their files; where npm's registry cannot be reached (1) ctest lists them as skipped.
test: build
	scripts/fetch_models.sh || test $$? = 1
	ctest --test-dir build --output-on-failure

clean:
	rm -rf build
