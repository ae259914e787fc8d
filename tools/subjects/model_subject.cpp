#include "subjects/model_subject.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "heddle/dag/compute_dag.h"
#include "heddle/generate/gguf.h"
#include "heddle/support/error.h"
#include "ir/sizes.h"
#include "subjects/input_file.h"

namespace heddle::cli {
namespace {

constexpr const char* kSuffix = ".onnx";
constexpr const char* kStates = "states";  // among the dimensions: OnnxOptions::states

struct Extent {
  int64_t lo = 1, hi = 1, multiple = 1;
};

// "12", "1..128", "8..128/8"; nullopt for anything else.
std::optional<Extent> extent_of(const std::string& text) {
  size_t at = 0;
  const auto number = [&](int64_t* value) {
    const size_t begin = at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
    if (at == begin || at - begin > 9) return false;
    *value = std::stoll(text.substr(begin, at - begin));
    return true;
  };
  Extent e;
  if (!number(&e.lo)) return std::nullopt;
  e.hi = e.lo;
  if (text.compare(at, 2, "..") == 0) {
    at += 2;
    if (!number(&e.hi)) return std::nullopt;
    if (at < text.size() && text[at] == '/' && (++at, !number(&e.multiple))) return std::nullopt;
  }
  return at == text.size() ? std::optional(e) : std::nullopt;
}

// "past+seq" as the names of its parts; empty for what is no sum.
std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts = split_text(text, '+');
  const bool sum = parts.size() > 1 && std::none_of(parts.begin(), parts.end(),
                                                    [](const auto& p) { return p.empty(); });
  return sum ? parts : std::vector<std::string>{};
}

// The end of the path: after the last ".onnx" that is followed by a colon or by nothing.
size_t path_length(const std::string& subject) {
  const size_t suffix = subject.rfind(kSuffix);
  if (suffix == std::string::npos) return 0;
  const size_t end = suffix + std::string(kSuffix).size();
  return end == subject.size() || subject[end] == ':' ? end : 0;
}

void set_dims(OnnxOptions& options, const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    if (text == kStates) {
      options.states = true;
      continue;
    }
    const size_t sign = text.rfind('=');
    const std::string name = text.substr(0, sign);
    const bool named = sign != std::string::npos && sign > 0;
    const std::string value = named ? text.substr(sign + 1) : "";
    options.dims.erase(name);
    options.ranges.erase(name);
    options.sums.erase(name);
    if (std::vector<std::string> parts = parts_of(value); named && !parts.empty()) {
      options.sums.emplace(name, std::move(parts));
      continue;
    }
    const std::optional<Extent> extent = named ? extent_of(value) : std::nullopt;
    if (!extent)
      throw_user_error(
          "'" + text + "' sets no dimension", {},
          "write NAME=EXTENT, such as batch=1, NAME=FIRST..LAST, such as seq=1..128 or "
          "seq=8..128/8 for multiples of 8, or a sum of others, such as total=past+seq");
    if (extent->lo == extent->hi) {
      options.dims[name] = extent->lo;
    } else {
      Dim range = dim(name, extent->lo, extent->hi);
      if (extent->multiple > 1) range = range.multiple_of(extent->multiple);
      options.ranges.emplace(name, std::move(range));
    }
  }
}

// The dimensions that the subject names.
OnnxOptions options_of(const std::string& subject) {
  const size_t end = path_length(subject);
  OnnxOptions options;
  if (end < subject.size()) set_dims(options, split_text(subject.substr(end + 1), ','));
  return options;
}

}  // namespace

bool is_model(const std::string& subject) { return path_length(subject) > 0; }

bool has_ranges(const std::string& subject) {
  return is_model(subject) && !options_of(subject).ranges.empty();
}

std::string model_path(const std::string& subject) {
  return subject.substr(0, path_length(subject));
}

std::string with_states(const std::string& subject) {
  if (!is_model(subject))
    throw_user_error("--states is for an ONNX file, and '" + subject + "' is none", {},
                     "leave it out");
  return with_dims(subject, {kStates});
}

std::string with_dims(const std::string& subject, const std::vector<std::string>& dims) {
  if (dims.empty()) return subject;
  if (!is_model(subject))
    throw_user_error("--dims is for the dimensions of an ONNX file, and '" + subject + "' is none",
                     {}, "write the sizes of a subject into it: matmul:1..2048x768x768");
  return subject + (path_length(subject) == subject.size() ? ":" : ",") + join(dims, ",");
}

OnnxModel import_subject(const std::string& subject, DataType dtype, int64_t batch) {
  OnnxOptions options = options_of(subject);
  options.loops = !options.states;
  options.precision = dtype;
  options.batch = batch;
  const std::string path = model_path(subject);
  check_file(path);
  return import_onnx(path, options);
}

OnnxModel import_decoder(const std::string& subject, DataType dtype, const DecoderSizes& sizes) {
  if (is_gguf(subject)) {
    if (dtype != f32)
      throw_user_error("a GGUF file computes in f32, and not in " + to_string(dtype), {},
                       "leave --dtype out");
    return gguf_decoder(GgufFile(subject), sizes);
  }
  const std::string path = model_path(subject);
  if (path != subject) return import_subject(with_states(subject), dtype);
  check_file(path);
  OnnxOptions options = decoder_options(path, sizes);
  options.precision = dtype;
  return import_onnx(path, options);
}

namespace {

/// The arithmetic and the bytes of a call. Each turn of a loop does its part.
void add_work(Problem& problem) {
  const auto add = [](std::vector<Tensor>& list, const Tensor& t) {
    if (std::none_of(list.begin(), list.end(), [&](const Tensor& o) { return o.same_as(t); }))
      list.push_back(t);
  };
  std::vector<Tensor> all = problem.outputs;
  double of_turns = 0;
  for (const Repeat& r : problem.updates.repeats) {
    for (const Repeat::Slice& s : r.slices) add(all, s.whole);
    for (const Repeat::State& s : r.states) add(all, s.first);
  }
  const double once = ComputeDag(all).total_flops();
  for (const Repeat& r : problem.updates.repeats) {
    std::vector<Tensor> with = all;
    for (const Repeat::State& s : r.states) add(with, s.next);
    for (const Repeat::Rows& rows : r.rows) add(with, rows.row);
    of_turns +=
        static_cast<double>(largest_extent(r.turns)) * (ComputeDag(with).total_flops() - once);
  }
  problem.flops = std::round(once + of_turns);
  problem.bytes = ComputeDag(problem.outputs).compulsory_bytes();
}

}  // namespace

Problem model_problem(const std::string& subject, DataType dtype) {
  const OnnxModel model = import_subject(subject, dtype);
  Problem problem;
  problem.subject = subject;
  problem.dtype = dtype;
  problem.inputs = model.inputs;
  problem.inputs.insert(problem.inputs.end(), model.constants.begin(), model.constants.end());
  problem.outputs = model.outputs;
  problem.dims = model.dims;
  problem.updates = model.updates;
  add_work(problem);
  return problem;
}

}  // namespace heddle::cli
