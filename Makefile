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

# The tests of real models need their files; without npm or its registry those tests say that they were skipped.
test: build
	-scripts/fetch_models.sh
	ctest --test-dir build --output-on-failure

clean:
	rm -rf build
