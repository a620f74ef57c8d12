# Ashlar's commands. Each installs what it alone needs (scripts/install.sh), builds what it alone needs,
# and starts from a fresh clone on Debian 12. CMake does the building: this file only strings steps together.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.SILENT:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

MODEL ?=
HOST ?= 127.0.0.1
PORT ?= 8080
SECONDS ?= 60
ARGS ?=

jobs := $(shell nproc)
program := build/release/bin/ashlar
# The model to use: MODEL when given, else the default one, fetched once.
model_path := model="$${MODEL:-$${ASHLAR_MODEL:-$$(scripts/fetch_model.sh)}}"
# A prompt of ours, unless ARGS says where the prompt comes from.
ifndef PROMPT
ifeq ($(filter --chat --prompt%,$(ARGS)),)
PROMPT := What is the capital of France?
endif
endif
# Whatever the prompt holds ($, quotes), it reaches the program unchanged.
override PROMPT := $(value PROMPT)
export MODEL PROMPT

# The compiler the project is measured with, unless the caller names another.
ifeq ($(origin CXX),default)
CXX := g++-12
endif
export CXX

.PHONY: help
help: ## list the commands
	echo "make COMMAND [VARIABLE=value...]"
	awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	echo
	echo "ARGS=\"--flag ...\" passes more flags to the program; MODEL=PATH takes another GGUF file or folder of safetensors."

.PHONY: build
build: ## build the program: build/release/bin/ashlar
	scripts/install.sh build
	cmake --preset release $$(test -e build/release/CMakeCache.txt || echo -DASHLAR_TESTS=OFF)
	cmake --build --preset release --target ashlar -j $(jobs)

.PHONY: serve
serve: build ## serve the OpenAI-compatible API on HOST=127.0.0.1 PORT=8080
	$(model_path)
	exec $(program) serve --model "$$model" $(if $(filter --host%,$(ARGS)),,--host $(HOST)) \
	  $(if $(filter --port%,$(ARGS)),,--port $(PORT)) $(ARGS)

.PHONY: run
run: build ## answer PROMPT="..." on the terminal; ARGS=--chat chats
	$(model_path)
	exec $(program) run --model "$$model" $${PROMPT:+--prompt "$$PROMPT"} $(ARGS)

.PHONY: test
test: ## build everything, run every test
	scripts/install.sh build test
	cmake --preset release -DASHLAR_TESTS=ON
	cmake --build --preset release -j $(jobs)
	python=$$(scripts/test_venv.sh)
	scripts/fetch_vocabs.sh >/dev/null
	scripts/fetch_model.sh gemma3 >/dev/null
	$(model_path)
	ASHLAR_TEST_PYTHON="$$python" ASHLAR_TEST_MODEL="$$model" ctest --preset release -j $(jobs) $(ARGS)

.PHONY: neon
neon: ## build the kernels for Arm, run their tests under qemu
	scripts/install.sh cross
	cmake --preset neon
	cmake --build --preset neon -j $(jobs)
	ctest --preset neon -j $(jobs) $(ARGS)

.PHONY: bench
bench: ## build and run the micro-benchmarks
	scripts/install.sh build bench
	cmake --preset bench
	cmake --build --preset bench -j $(jobs)
	for bench in build/bench/bin/*_bench; do "$$bench" $(ARGS); done

.PHONY: codec-study
codec-study: build ## measure the quality of the KV codecs; writes docs/codecs.md and docs/codecs.svg
	scripts/install.sh study
	tools/codec_study/run.sh $(ARGS)

.PHONY: format
format: ## format the C++ sources in place
	scripts/install.sh analysis
	scripts/check_format.sh --fix

.PHONY: tidy
tidy: ## house rules and clang-tidy
	scripts/install.sh build test analysis
	cmake --preset release -DASHLAR_TESTS=ON
	/usr/bin/python3 tools/tidy/tidy_test.py --build-dir build/release
	scripts/run_tidy.sh $(ARGS)

.PHONY: fuzz
fuzz: ## fuzz every target for SECONDS=60 seconds
	scripts/install.sh build fuzz
	scripts/fuzz.sh $(SECONDS)

.PHONY: clean
clean: ## delete build/ (the model stays in its cache folder)
	rm -rf build
