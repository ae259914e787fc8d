// The prompts of `heddle generate`: lists of tokens, one for each sequence.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::cli {

using Prompts = std::vector<std::vector<int64_t>>;

/// What --end-ids says in place of tokens where a sequence does not end.
inline constexpr char kNoEnd[] = "none";

/// The tokens of "15496,11,995", which spaces may separate as well. A User error for anything else,
/// and for a list without tokens.
std::vector<int64_t> parse_prompt(const std::string& text);

/// The lists that the command line gives, then those of `file`, which has one a line; lines without
/// text are left out. "": no file. A User error, with the number of the line, for a list that is
/// wrong, and where there is none at all.
Prompts prompts_of(const std::vector<std::string>& lists, const std::string& file);

/// One list for each of `batch` sequences: those that are given, or one for all. A batch of 1 stands
/// for as many as there are. A User error for another number.
Prompts for_batch(Prompts prompts, int64_t batch);

}  // namespace heddle::cli
