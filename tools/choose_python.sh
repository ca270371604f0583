#!/bin/sh
# Prints the Python for .venv: python3, unless it was compiled without optimizations (as pyenv does by
# default) and the system has one that was compiled with them, is new enough, and can build the package.
# The tests are faster with it. `make install PYTHON=python3` overrides the choice.
compiled_without_optimizations='
import sys, sysconfig
built_by_the_system = sys.base_prefix == "/usr"  # their options do not show it
sys.exit(built_by_the_system or "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or ""))'
can_build='
import ensurepip, pathlib, sys, sysconfig, venv
header = pathlib.Path(sysconfig.get_paths()["include"], "Python.h")
sys.exit(sys.version_info < (3, 11) or not header.exists())'

if python3 -c "$compiled_without_optimizations" 2>/dev/null && /usr/bin/python3 -c "$can_build" 2>/dev/null; then
    echo /usr/bin/python3
else
    echo python3
fi
