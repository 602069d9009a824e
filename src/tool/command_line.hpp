// The option parser, whole. Its headers cost seconds in every file that includes them, and each such file builds the
// parser's validators anew, so only what declares options does; others know CLI::App and CLI::Option by name.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
