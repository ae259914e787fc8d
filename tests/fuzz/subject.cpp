// A subject of the command line: "matmul:512x512x512,ta=1".
#include "subjects/subjects.h"

#include "fuzz/fuzz_target.h"

namespace heddle::fuzz {

void read_subject(std::string_view bytes) { cli::make_problem(std::string(bytes), f32); }

std::vector<std::string> subject_seeds() {
  std::vector<std::string> seeds;
  for (const cli::SubjectKind& kind : cli::subject_kinds()) {
    if (!kind.network) seeds.push_back(kind.grammar.example);
  }
  return seeds;
}

}  // namespace heddle::fuzz
