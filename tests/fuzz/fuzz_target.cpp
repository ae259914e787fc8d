#include "fuzz/fuzz_target.h"

#include <exception>

#include "heddle/support/error.h"

namespace heddle::fuzz {
namespace {

constexpr FuzzTarget kTargets[] = {
    {"cubin", Format::Bytes, read_cubin, cubin_seeds},
    {"declaration", Format::JsonLines, read_declaration, declaration_seeds},
    {"exported", Format::JsonLines, read_exported, exported_seeds},
    {"frames", Format::Bytes, read_frames, frame_seeds},
    {"gguf", Format::Bytes, read_gguf, gguf_seeds},
    {"heuristic", Format::JsonLines, read_heuristic_lines, heuristic_seeds},
    {"npy", Format::Bytes, read_npy, npy_seeds},
#ifdef HEDDLE_FUZZ_ONNX
    {"onnx", Format::Bytes, read_onnx, onnx_seeds},
#endif
    {"plan", Format::JsonLines, read_plan, plan_seeds},
    {"records", Format::JsonLines, read_record_lines, record_seeds},
    {"schedule", Format::JsonLines, read_schedule, schedule_seeds},
#ifdef HEDDLE_FUZZ_SUBJECTS
    {"subject", Format::Bytes, read_subject, subject_seeds},
#endif
    {"target", Format::Bytes, read_target, target_seeds},
    {"tree", Format::JsonLines, read_tree_file, tree_seeds},
    {"worker", Format::JsonLines, read_worker_messages, worker_seeds},
};

}  // namespace

std::span<const FuzzTarget> fuzz_targets() { return kTargets; }

const FuzzTarget& fuzz_target(std::string_view name) {
  std::string names;
  for (const FuzzTarget& target : kTargets) {
    if (target.name == name) return target;
    names += (names.empty() ? "" : ", ") + std::string(target.name);
  }
  throw_user_error("there is no fuzz target '" + std::string(name) + "'", {}, "there are " + names);
}

Outcome outcome_of(const FuzzTarget& target, std::string_view bytes) {
  try {
    target.read(bytes);
    return {};
  } catch (const Error& error) {
    return {error.kind == ErrorKind::Internal ? Verdict::Bug : Verdict::Refused, error.what()};
  } catch (const std::exception& error) {
    return {Verdict::Bug, std::string("no Error of Heddle's: ") + error.what()};
  }
}

}  // namespace heddle::fuzz
