#include <algorithm>
#include <cmath>

#include "codegen/cuda/kernel_writer.h"
#include "codegen/cuda/text/types.h"
#include "ir/combined_store.h"

namespace heddle::cuda {
namespace {

constexpr size_t kLongLane = 48;

bool has_load(const Expr& e) {
  return any_below(e, [](const Expr& x) { return x.kind() == ExprKind::Load; });
}

/// Whether `value` reads elements of `buffer` other than the one that the same lane stores.
bool reads_others(const Expr& value, const Buffer& buffer, const Expr& index) {
  return any_below(value, [&](const Expr& x) {
    const Load* load = x.as<Load>();
    return load && load->buffer == buffer && !equal(load->indices[0], index);
  });
}

// The argument of a call of `function` that `text` is as a whole; empty where it is no such call.
std::string argument_of(const std::string& function, const std::string& text) {
  const size_t open = function.size();
  if (!text.starts_with(function + "(") || !text.ends_with(")")) return "";
  int depth = 0;
  for (size_t i = open; i + 1 < text.size(); ++i) {
    depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
    if (depth == 0) return "";
  }
  return text.substr(open + 1, text.size() - open - 2);
}

}  // namespace

void KernelWriter::store(const Store& s) {
  const Expr& index = flat(s.buffer, s.indices);
  const Storage& to = storage_of(s.buffer);
  const int lanes = std::max(index.dtype().lanes, s.value.dtype().lanes);
  if (has(s.hint, kCombined)) return store_combined(s, to, index, lanes);
  begin({index, s.value});
  if (facts_.ahead.contains(s.buffer.get()) && store_ahead(s, to)) return flush();
  const bool to_all = to.scope == Scope::Shared && kernel_.cluster > 1;
  if (has(s.hint, StoreHint::Async) && !to_all && store_async(s, to, lanes)) return flush();
  std::vector<Text> values;
  for (int lane = 0; lane < lanes; ++lane) values.push_back(value(s.value, lane));
  if (to_all) {
    store_in_cluster(s, to, values);
    return flush();
  }
  if (lanes > 1 && reads_others(s.value, s.buffer, index)) {
    for (Text& v : values) v = named(s.value, v, "t");
  }
  // Long lanes get names, so that vector stores remain readable.
  if (lanes > 1 && (to.per_word || run_of(index))) {
    for (Text& v : values) {
      if (v.s.size() > kLongLane) v = named(s.value, v, "t");
    }
  }
  if (to.per_word) {
    store_words(s, to, values);
  } else if (lanes > 1 && run_of(index)) {
    store_run(s, to, values);
  } else {
    for (int lane = 0; lane < lanes; ++lane) {
      store_element(s, to, value(index, lane), values[static_cast<size_t>(lane)]);
    }
  }
  flush();
}

// A load that stays before the wait for the kernel before: words, or a short element.
bool KernelWriter::store_ahead(const Store& s, const Storage& to) {
  const Load* from = s.value.as<Load>();
  const DataType t = s.buffer->dtype;
  if (!from || storage_of(from->buffer).scope != Scope::Argument) return false;
  const Storage& memory = storage_of(from->buffer);
  if (!s.value.dtype().is_vector()) {
    if (t.bytes() != 2 || to.per_word || memory.per_word) return false;
    const Text at = value(from->indices[0]);
    store_element(s, to, value(s.indices[0]),
                  {prelude_.use("load_ahead_2") + "(" + address(memory, at) + ")", kAtom});
    return true;
  }
  const Ramp *run = run_of(from->indices[0]), *place = run_of(s.indices[0]);
  if (!to.per_word || !run || !place || known_divisor(place->base, divisors_) < to.per_word)
    return false;
  const std::vector<Chunk> chunks =
      cut_lanes(s.value.dtype().lanes, t.bytes(), known_divisor(run->base, divisors_));
  for (const Chunk& c : chunks)
    if (c.count * t.bytes() % 4 != 0) return false;
  static constexpr const char* kParts[] = {".x", ".y", ".z", ".w"};
  for (const Chunk& c : chunks) {
    const int bytes = c.count * t.bytes(), words = bytes / 4;
    const std::string name = names_.numbered("v");
    before("const " + vector_type(t, bytes) + " " + name + " = " +
           prelude_.use("load_ahead_" + std::to_string(bytes)) + "(" +
           address(memory, index_at(*run, c.begin)) + ");");
    for (int i = 0; i < words; ++i) {
      const Expr word = simplify(
          floordiv(place->base, Expr(to.per_word)) + Expr(c.begin / to.per_word + i), ranges_);
      before(to.name + "[" + value(word).s + "] = " + name + (words == 1 ? "" : kParts[i]) + ";");
    }
  }
  return true;
}

// An atomic instruction for each lane.
void KernelWriter::store_combined(const Store& s, const Storage& to, const Expr& index, int lanes) {
  const CombinedPart combined = combined_part(s);
  const DataType t = s.buffer->dtype;
  const bool sum = combined.op == BinaryOp::Add, is_unsigned = sum || t.is_uint();
  const std::string type =
      std::string(is_unsigned ? "unsigned " : "") + (t.bits == 64 ? "long long" : "int");
  const std::string call = sum                            ? "atomicAdd"
                           : combined.op == BinaryOp::Max ? "atomicMax"
                                                          : "atomicMin";
  begin({index, combined.part});
  for (int lane = 0; lane < lanes; ++lane) {
    const Text part = value(combined.part, lane);
    before(call + "((" + type + "*)(" + address(to, value(index, lane)) + "), (" + type + ")" +
           part.at(kUnary) + ");");
  }
  flush();
}

// Each block of the cluster has a copy of the buffer and loads from its own copy.
void KernelWriter::store_in_cluster(const Store& s, const Storage& to,
                                    const std::vector<Text>& values) {
  const Expr& index = s.indices[0];
  const bool counted = has(s.hint, StoreHint::Async);
  const std::string call = prelude_.use(counted ? "send_in_cluster" : "store_in_cluster") + "<" +
                           std::to_string(kernel_.cluster) + ">(",
                    type = "(" + memory_type(s.buffer->dtype) + ")",
                    counter = ", " + arrivals_ + " + " + std::to_string(next_arrival_);
  std::vector<Text> kept = values;
  if (kept.size() > 1) {
    for (Text& v : kept) v = named(s.value, v, "t");
  }
  for (size_t lane = 0; lane < kept.size(); ++lane) {
    before(call + address(to, value(index, static_cast<int>(lane))) + ", " + type +
           kept[lane].at(kUnary) + (counted ? counter : "") + ");");
  }
}

void KernelWriter::store_element(const Store& s, const Storage& to, const Text& index,
                                 const Text& value) {
  if (has(s.hint, StoreHint::NonTemporal) && to.scope == Scope::Argument) {
    const Text v = s.buffer->dtype.is_bool() ? converted("unsigned char", value) : value;
    // The value is cast to the type of the buffer, because __stcs is overloaded and int is not long
    // long.
    return before("__stcs(" + address(to, index) + ", (" + memory_type(s.buffer->dtype) + ")" +
                  v.at(kUnary) + ");");
  }
  const std::string target = to.single ? to.name : to.name + "[" + index.s + "]";
  // target = target + x
  const DataType t = s.value.dtype();
  const std::string self = target + " + ";
  if (t.is_float() && t.bits >= 32 && value.precedence == kSum && value.s.starts_with(self) &&
      s.value.as<Binary>() && s.value.as<Binary>()->a.kind() == ExprKind::Load) {
    return before(target + " += " + value.s.substr(self.size()) + ";");
  }
  before(target + " = " + value.s + ";");
}

std::string KernelWriter::packed(DataType t, const std::vector<Text>& lanes, size_t begin,
                                 size_t count) {
  const size_t per_word = static_cast<size_t>(elements_per_word(t));
  std::vector<std::string> words;
  for (size_t i = begin; i < begin + count; i += per_word) {
    if (per_word == 1) {
      words.push_back(lanes[i].s);
      continue;
    }
    if (is_small_float(t) && per_word == 2) {
      const std::string narrow = t == f16 ? "f16_from_f32" : "bf16_from_f32";
      const std::string low = argument_of(narrow, lanes[i].s),
                        high = argument_of(narrow, lanes[i + 1].s);
      if (!low.empty() && !high.empty()) {
        words.push_back(prelude_.use(t == f16 ? "pack_f16" : "pack_bf16") + "(" + low + ", " +
                        high + ")");
        continue;
      }
    }
    std::string word = prelude_.use(per_word == 2 ? "pack16" : "pack8") + "(";
    for (size_t k = 0; k < per_word; ++k) word += (k ? ", " : "") + lanes[i + k].s;
    words.push_back(word + ")");
  }
  const std::string make = make_vector(t, static_cast<int>(count) * t.bytes());
  if (make.empty()) return words[0];
  size_t width = 0;
  for (const std::string& w : words) width += w.size() + 2;
  const std::string gap =
      width < 70 ? ", " : ",\n" + std::string(static_cast<size_t>(indent_ + 2) * 2, ' ');
  std::string out = make + "(";
  for (size_t i = 0; i < words.size(); ++i) out += (i ? gap : "") + words[i];
  return out + ")";
}

void KernelWriter::store_run(const Store& s, const Storage& to, const std::vector<Text>& values) {
  const Ramp& run = *run_of(s.indices[0]);
  const DataType t = s.buffer->dtype;
  const int lanes = static_cast<int>(values.size());
  const int divisor = to.scope == Scope::Local ? 1 : known_divisor(run.base, divisors_);
  const bool pairs = t.bytes() == 1 && divisor % 2 == 0 && to.scope != Scope::Local &&
                     !has(s.hint, StoreHint::NonTemporal);
  const std::vector<Chunk> chunks = cut_lanes(lanes, t.bytes(), divisor);
  for (size_t k = 0; k < chunks.size(); ++k) {
    const Chunk& c = chunks[k];
    const Text index = index_at(run, c.begin);
    const auto first = static_cast<size_t>(c.begin);
    if (c.count == 1) {
      if (pairs && c.begin % 2 == 0 && k + 1 < chunks.size()) {
        ++k;
        before("*(unsigned short*)(" + address(to, index) + ") = " + prelude_.use("pack_bytes") +
               "(" + values[first].s + ", " + values[first + 1].s + ");");
        continue;
      }
      store_element(s, to, index, values[first]);
      continue;
    }
    const std::string type = vector_type(t, c.count * t.bytes());
    const std::string vector = packed(t, values, first, static_cast<size_t>(c.count));
    const std::string pointer = "(" + type + "*)(" + address(to, index) + ")";
    if (has(s.hint, StoreHint::NonTemporal) && to.scope == Scope::Argument) {
      before("__stcs(" + pointer + ", " + vector + ");");
    } else {
      before("*" + pointer + " = " + vector + ";");
    }
  }
}

// Stores to an array of words. Where the lanes fill whole words, whole words are stored.
void KernelWriter::store_words(const Store& s, const Storage& to, const std::vector<Text>& values) {
  const Expr& index = s.indices[0];
  const DataType t = s.buffer->dtype;
  const auto lanes = values.size(), per_word = static_cast<size_t>(to.per_word);
  const Ramp* run = run_of(index);
  if (run && lanes % per_word == 0 &&
      static_cast<size_t>(known_divisor(run->base, divisors_)) >= per_word) {
    const Expr first = simplify(floordiv(run->base, Expr(to.per_word)), ranges_);
    for (size_t i = 0; i < lanes; i += per_word) {
      const Text word = value(first + Expr(static_cast<int64_t>(i / per_word)));
      before(to.name + "[" + word.s + "] = " + packed(t, values, i, per_word) + ";");
    }
    return;
  }
  const std::string put = prelude_.use(per_word == 2 ? "put16" : "put8");
  for (size_t i = 0; i < lanes; ++i) {
    before(put + "(" + to.name + ", " + value(index, static_cast<int>(i)).s + ", " + values[i].s +
           ");");
  }
}

bool KernelWriter::store_async(const Store& s, const Storage& to, int lanes) {
  const Select* select = s.value.as<Select>();
  const Load* l = (select ? select->on_true : s.value).as<Load>();
  if (to.scope != Scope::Shared || !l) return false;
  const Storage& from = storage_of(l->buffer);
  const Expr &to_index = s.indices[0], &from_index = flat(l->buffer, l->indices);
  const DataType t = s.buffer->dtype;
  if (from.scope != Scope::Argument || has_load(from_index) || has_load(to_index)) return false;
  std::vector<Chunk> chunks;
  if (lanes == 1) {
    chunks.push_back({0, 1});
  } else if (run_of(to_index) && run_of(from_index)) {
    // Where each lane has its own condition, lanes cannot be copied together.
    const bool by_lane = select && select->condition.dtype().is_vector();
    chunks = cut_lanes(lanes, t.bytes(),
                       by_lane ? 1
                               : std::min(known_divisor(to_index, divisors_),
                                          known_divisor(from_index, divisors_)));
  } else {
    return false;
  }
  for (const Chunk& c : chunks) {
    if (c.count * t.bytes() < 4) return false;
  }
  if (select) {
    const Broadcast* b = select->on_false.as<Broadcast>();
    const Expr& other = b ? b->value : select->on_false;
    const FloatImm* zero = other.as<FloatImm>();
    if (has_load(select->condition) || !is_const(other, 0) || (zero && std::signbit(zero->value))) {
      return false;
    }
  }
  for (const Chunk& c : chunks) {
    const std::string name = "cp_async_" + std::to_string(c.count * t.bytes());
    // Both operands may add lines. They are evaluated in two statements, because the order of
    // evaluation of operator+ differs between compilers.
    const std::string source = address(from, value(from_index, c.begin));
    const std::string pointers = address(to, value(to_index, c.begin)) + ", " + source;
    if (select) {
      before(prelude_.use(name + "_or_zero") + "(" + pointers + ", " +
             value(select->condition, c.begin).s + ");");
    } else {
      before(prelude_.use(name) + "(" + pointers + ");");
    }
  }
  return true;
}

}  // namespace heddle::cuda
