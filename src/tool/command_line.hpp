// The option parser, whole. Its headers cost seconds in every file that includes them, and each builds the parser's
// validators anew. So only files that declare options include it; others know CLI::App and CLI::Option by name.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
