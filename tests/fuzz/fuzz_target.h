// What reads bytes that others made, as functions of those bytes: libFuzzer calls them with what it
// draws (libfuzzer.cpp), and the unit tests with seeds, with changed seeds, and with what a fuzzer
// once found (replay_test.cpp).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::fuzz {

enum class Format {
  Bytes,
  JsonLines,  ///< one or more lines of JSON: also changed as trees
};

struct FuzzTarget {
  const char* name;
  Format format;
  /// Reads `bytes` as the product does, and what was read once more from what it is written as.
  /// What is wrong with the bytes is an Error of the kinds User and Runtime; everything else is a
  /// bug of Heddle.
  void (*read)(std::string_view bytes);
  /// Inputs that `read` takes without an error.
  std::vector<std::string> (*seeds)();
};

/// All targets, by name.
std::span<const FuzzTarget> fuzz_targets();
/// Throws a User error for an unknown name.
const FuzzTarget& fuzz_target(std::string_view name);

enum class Verdict { Accepted, Refused, Bug };
struct Outcome {
  Verdict verdict = Verdict::Accepted;
  std::string message;  ///< of the error
};
/// Calls `target.read`, and says what became of it.
Outcome outcome_of(const FuzzTarget& target, std::string_view bytes);

// One source file each.
void read_cubin(std::string_view bytes);
void read_declaration(std::string_view bytes);
void read_exported(std::string_view bytes);
void read_frames(std::string_view bytes);
void read_heuristic_lines(std::string_view bytes);
void read_npy(std::string_view bytes);
void read_onnx(std::string_view bytes);
void read_record_lines(std::string_view bytes);
void read_schedule(std::string_view bytes);
void read_subject(std::string_view bytes);
void read_target(std::string_view bytes);
void read_tree_file(std::string_view bytes);
void read_worker_messages(std::string_view bytes);

std::vector<std::string> cubin_seeds();
std::vector<std::string> declaration_seeds();
std::vector<std::string> exported_seeds();
std::vector<std::string> frame_seeds();
std::vector<std::string> heuristic_seeds();
std::vector<std::string> npy_seeds();
std::vector<std::string> onnx_seeds();
std::vector<std::string> record_seeds();
std::vector<std::string> schedule_seeds();
std::vector<std::string> subject_seeds();
std::vector<std::string> target_seeds();
std::vector<std::string> tree_seeds();
std::vector<std::string> worker_seeds();

}  // namespace heddle::fuzz
