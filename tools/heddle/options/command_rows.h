// Parts that the rows of the table of commands share, and the lists of rows.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "options/command_table.h"

namespace heddle::cli {

using Commands = std::vector<Command>;

inline const std::string kSubject = "Such as matmul:512x512x512; see `heddle list`";

/// Options as the table has them.
inline std::vector<Takes> plain(std::initializer_list<const char*> ids) {
  std::vector<Takes> all;
  for (const char* id : ids) all.push_back({id});
  return all;
}

inline std::vector<Takes> together(std::initializer_list<std::vector<Takes>> lists) {
  std::vector<Takes> all;
  for (const std::vector<Takes>& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

/// The subject itself. `what` says which ones the command takes.
inline Takes subject(const std::string& what = kSubject) {
  return {.id = "subject", .help = what, .needed = true};
}

inline const Takes kExpectedSizes = {
    .id = "--sizes",
    .help =
        "Sizes of a range that are expected, with how often: 1*9,17,512; of two ranges: "
        "8x32*2,64x1",
    .otherwise = "sizes whose logarithms are evenly spaced, each as often"};
inline const Takes kQuiet = {"-q,--quiet", "Do not say which plan or which records decide"};

Commands commands_that_show();
Commands commands_that_build();
Commands commands_that_tune();
Commands commands_of_plans();
Commands commands_of_records();
Commands commands_of_heuristics();
Commands commands_of_stores();

}  // namespace heddle::cli
