// The table of alternatives: each graph that computes a declaration, with its time, its share of
// the best, and the reason why it was not tried.
#pragma once

#include <string>
#include <vector>

#include "heddle/dag/alternatives.h"
#include "heddle/support/json.h"

namespace heddle::cli {

struct AlternativeRow {
  std::string name = {};           ///< empty: the declaration as it is
  std::string template_name = {};  ///< of its static choice; empty: not made
  Numerics numerics = Numerics::Exact;
  double error_growth = 1;
  double seconds = 0;        ///< of its best; 0: not measured
  int trials = 0;            ///< that ran
  bool used = false;         ///< by the result
  std::string why_not = {};  ///< why it was not tried; empty where it was, or could be
  std::string note = {};     ///< what its rule says of it
  Json config = {};          ///< the knobs of its best; null: none
};

/// Lines of at most `columns` characters, as far as the columns before the last one allow.
std::string alternatives_text(const std::vector<AlternativeRow>& rows, int columns = 120);
/// The cells of the table, header first, for other renderings.
std::vector<std::vector<std::string>> alternatives_cells(const std::vector<AlternativeRow>& rows);
Json alternatives_json(const std::vector<AlternativeRow>& rows);

}  // namespace heddle::cli
