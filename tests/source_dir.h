#pragma once
// Where the files of the repository lie that tests read.

#include <string>

namespace heddle {

/// The folder of the checkout. Only source_dir.cpp is compiled with the path, so that the objects
/// of all tests are the same in every checkout and a compiler cache serves them.
std::string source_dir();

}  // namespace heddle
