# make run      plan real models' memory, run the models in it, report
# make test     build and pass all tests
# make build    the tool alone, at build/bin/berth; models run by Berth's own kernels
# make install  the library, the headers, the tool and the Python module, below PREFIX
# make deb      the same as Debian packages, with a shared library, in build/deb
# make bench    the benchmarks, in build/bin
# make docs     the API reference, in build/reference
# make viewer   the page that reads dropped files in the browser, at build/web/berth.html
PRESET ?= release
PREFIX ?= /usr/local
# A fresh `make build` leaves out what the tool does not need; what another target configured stays.
TOOL = -DBERTH_TESTS=OFF -DBERTH_PYTHON=OFF -DBERTH_BENCH=OFF -DBERTH_EXAMPLES=OFF
FEW = $(if $(wildcard build/CMakeCache.txt),,$(TOOL))
ALL = -DBERTH_TESTS=ON -DBERTH_PYTHON=ON -DBERTH_BENCH=ON -DBERTH_EXAMPLES=ON
.PHONY: build run test install deb bench docs viewer clean

build:
	scripts/setup.sh
	cmake --preset $(PRESET) $(FEW)
	cmake --build build --target berth_tool

# With oneDNN's kernels.
run:
	scripts/setup.sh run
	cmake --preset $(PRESET) $(FEW)
	cmake --build build --target berth_run
	scripts/run_models.sh

# The tests of real models need their files; where npm's registry cannot be reached (1) ctest lists them as skipped.
test:
	scripts/setup.sh tests
	cmake --preset $(PRESET) $(ALL)
	cmake --build build
	scripts/fetch_models.sh --all || test $$? = 1
	ctest --test-dir build --output-on-failure --parallel $$(($$(nproc) + 1))

install:
	scripts/setup.sh python
	cmake --preset $(PRESET) $(FEW) -DBERTH_PYTHON=ON -DCMAKE_INSTALL_PREFIX=$(abspath $(PREFIX))
	cmake --build build --target berth_installed
	cmake --install build --prefix $(PREFIX)

deb:
	scripts/setup.sh deb
	cmake --preset deb
	cmake --build build/deb --target berth_installed
	cd build/deb && cpack

bench:
	scripts/setup.sh run
	cmake --preset $(PRESET) $(FEW) -DBERTH_BENCH=ON
	cmake --build build --target berth_benches

# The configuration looks for Doxygen, so it comes after what installs it.
docs:
	scripts/setup.sh docs
	cmake --preset $(PRESET) $(FEW)
	cmake --build build --target berth_reference

viewer:
	scripts/viewer.sh

clean:
	rm -rf build
