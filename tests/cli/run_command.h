// Runs build/bin/heddle and captures its output.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "support/files/file.h"

namespace heddle {

struct CommandResult {
  int status = -1;  ///< -1: it did not end by itself
  std::string out, err;
};

inline std::string temporary(const std::string& name) {
  return ::testing::TempDir() + "heddle_cli_" + std::to_string(::getpid()) + "_" + name;
}

/// `arguments` as for a shell; `environment`: "NAME=value ...".
inline CommandResult heddle_command(const std::string& arguments,
                                    const std::string& environment = "") {
  const std::string out = temporary("out"), err = temporary("err");
  const int raw = std::system(
      (environment + " " + HEDDLE_COMMAND + " " + arguments + " >" + out + " 2>" + err).c_str());
  CommandResult result;
  if (raw != -1 && WIFEXITED(raw)) result.status = WEXITSTATUS(raw);
  result.out = read_file(out);
  result.err = read_file(err);
  ::unlink(out.c_str());
  ::unlink(err.c_str());
  return result;
}

/// The number of occurrences of `part` in `text`.
inline int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace heddle
