// The program heddle_fuzz: libFuzzer on the target that --target=NAME names. --seeds=FOLDER writes
// the target's seeds, and a dictionary of the texts in them, instead.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "fuzz/fuzz_target.h"
#include "fuzz/mutate.h"
#include "heddle/support/error.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace heddle::fuzz {
namespace {

const FuzzTarget* chosen = nullptr;

/// The texts between quotes.
void quoted_in(const std::string& text, std::set<std::string>& words) {
  constexpr size_t kMostWords = 2000, kLongest = 24;
  for (size_t at = 0;
       (at = text.find('"', at)) != std::string::npos && words.size() < kMostWords;) {
    const size_t end = text.find('"', at + 1);
    if (end == std::string::npos) return;
    const std::string word = text.substr(at, end + 1 - at);
    const bool plain = word.find_first_not_of(
                           "\"_-=. abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                           "0123456789") == std::string::npos;
    if (plain && word.size() <= kLongest)
      words.insert("\"\\\"" + word.substr(1, word.size() - 2) + "\\\"\"");
    at = end + 1;
  }
}

void write_seeds(const std::string& folder) {
  std::filesystem::create_directories(folder);
  std::set<std::string> words;
  int number = 0;
  for (const std::string& seed : chosen->seeds()) {
    std::ofstream(folder + "/seed" + std::to_string(number++), std::ios::binary) << seed;
    if (chosen->format == Format::JsonLines) quoted_in(seed, words);
  }
  std::ofstream dictionary(folder + ".dict");
  dictionary << "# from the seeds\n";  // libFuzzer refuses an empty file
  for (const std::string& word : words) dictionary << word << "\n";
}

std::string mutate_by_libfuzzer(const std::string& text) {
  std::string room = text + std::string(text.size() + 16, '\0');
  room.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(room.data()), text.size(), room.size()));
  return room;
}

}  // namespace
}  // namespace heddle::fuzz

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  using namespace heddle;
  ::setenv("HEDDLE_TOPHUB", "off", 1);  // no shipped record decides what a target sees
  ::setenv("HEDDLE_LOG_FILE", "", 1);
  std::string seeds;
  try {
    for (int i = 1; i < *argc; ++i) {
      const std::string argument = (*argv)[i];
      if (argument.starts_with("--target=")) fuzz::chosen = &fuzz::fuzz_target(argument.substr(9));
      if (argument.starts_with("--seeds=")) seeds = argument.substr(8);
    }
    if (fuzz::chosen == nullptr) fuzz::fuzz_target("");
    if (!seeds.empty()) {
      fuzz::write_seeds(seeds);
      std::exit(0);
    }
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    std::exit(2);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace heddle::fuzz;
  const Outcome outcome = outcome_of(*chosen, {reinterpret_cast<const char*>(data), size});
  if (outcome.verdict == Verdict::Bug) {
    std::fprintf(stderr, "BUG: %s\n", outcome.message.c_str());
    std::abort();
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  using namespace heddle::fuzz;
  // Half of the changes to JSON are of bytes, for the sake of its parser.
  if (chosen->format == Format::JsonLines && seed % 2 == 0) {
    const std::string text(reinterpret_cast<const char*>(data), size);
    const std::string changed = mutate_json_lines(text, seed, mutate_by_libfuzzer);
    if (changed.size() <= max_size) {
      std::memcpy(data, changed.data(), changed.size());
      return changed.size();
    }
  }
  return LLVMFuzzerMutate(data, size, max_size);
}
