#include <algorithm>

#include "codegen/cuda/kernel_writer.h"
#include "codegen/cuda/text/types.h"

namespace heddle::cuda {

const KernelWriter::Storage& KernelWriter::storage_of(const Buffer& b) const {
  const auto it = storage_.find(b.get());
  if (it == storage_.end()) {
    fail("the buffer '" + b->name + "' is neither an argument nor allocated around its use");
  }
  return it->second;
}

const Expr& KernelWriter::flat(const Buffer& b, const std::vector<Expr>& indices) const {
  if (indices.size() != 1) {
    fail("'" + b->name + "' is accessed at " + std::to_string(indices.size()) +
         " indices, not at one");
  }
  return indices[0];
}

const Ramp* KernelWriter::run_of(const Expr& index) {
  const Ramp* r = index.as<Ramp>();
  return r && is_const(r->stride, 1) ? r : nullptr;
}

std::string KernelWriter::address(const Storage& s, const Text& index) const {
  if (s.single) return "&" + s.name;
  return index.s == "0" ? s.name : s.name + " + " + index.at(kProduct);
}

// The index of the element `offset` places after the base of the run. A long base gets a name.
Text KernelWriter::index_at(const Ramp& run, int offset) {
  if (offset == 0) return value(run.base);
  return value(run.base + Expr(offset));
}

namespace {

/// Neighbouring bytes of an even place as one access.
std::vector<Chunk> in_pairs(const std::vector<Chunk>& chunks) {
  std::vector<Chunk> out;
  for (const Chunk& c : chunks) {
    if (c.count == 1 && c.begin % 2 == 1 && out.back().count == 1) {
      out.back().count = 2;
    } else {
      out.push_back(c);
    }
  }
  return out;
}

Text byte_of(DataType t, const Text& word, int place) {
  const Text byte =
      place > 0 ? infix(word, ">>", {std::to_string(8 * place), kAtom}, kShift) : word;
  const Text x = converted(t == i8 ? "signed char" : "unsigned char", byte);
  return t.is_bool() ? infix(x, "!=", {"0", kAtom}, kEquality) : x;
}

}  // namespace

// One element of a buffer, at a scalar index or at one lane of a vector of indices.
Text KernelWriter::element(const Storage& from, DataType t, const Expr& index, int lane) {
  if (from.single) return {from.name, kAtom, t == i64};
  const Text i = value(index, lane);
  if (from.per_word) {
    const Text bits = {
        prelude_.use(from.per_word == 2 ? "get16" : "get8") + "(" + from.name + ", " + i.s + ")",
        kAtom};
    return t == i8 ? converted("signed char", bits) : bits;
  }
  Text r{from.name + "[" + i.s + "]", kAtom, t == i64};
  if (t.is_bool() && from.scope != Scope::Local) return infix(r, "!=", {"0", kAtom}, kEquality);
  return r;
}

Text KernelWriter::load(const Expr& e, int lane) {
  const Load& l = *e.as<Load>();
  const Expr& index = flat(l.buffer, l.indices);
  if (load_vector(e)) return *find_named({e, lane, rounding_});
  return element(storage_of(l.buffer), l.dtype.element(), index, lane);
}

// Names of the words (of elements that are longer: of the elements) of the chunk, which is loaded; what threads hold in
// words of registers is there already.
std::vector<std::string> KernelWriter::words_of(const Storage& from, const Ramp& run, Chunk c,
                                                DataType t) {
  static constexpr const char* kParts[] = {".x", ".y", ".z", ".w"};
  const int bytes = c.count * t.bytes(), per_word = elements_per_word(t),
            words = std::max(1, c.count / per_word);
  std::vector<std::string> names;
  if (from.scope == Scope::Local) {
    for (int i = 0; i < c.count; i += per_word) {
      const Expr at = simplify(floordiv(run.base + Expr(c.begin + i), Expr(per_word)), ranges_);
      const std::string word = from.name + "[" + value(at).s + "]";
      names.push_back(names_.numbered("v"));
      before("const unsigned " + names.back() + " = " + word + ";");
    }
    return names;
  }
  const std::string type = bytes == 2 ? "unsigned short" : vector_type(t, bytes),
                    name = names_.numbered("v");
  before("const " + type + " " + name + " = *(const " + type + "*)(" +
         address(from, index_at(run, c.begin)) + ");");
  for (int i = 0; i < words; ++i) names.push_back(name + (words == 1 ? "" : kParts[i]));
  return names;
}

// Loads all lanes by vectors, where that is possible, and gives them names.
bool KernelWriter::load_vector(const Expr& e) {
  const Load& l = *e.as<Load>();
  const DataType t = l.dtype.element();
  const Storage& from = storage_of(l.buffer);
  if (per_lane_ || (from.scope == Scope::Local && !facts_.ahead.contains(l.buffer.get())))
    return false;
  const std::optional<LaneRun> read = lane_run(l.indices[0]);
  if (!read) return false;
  const int elements = read->element_of.back() + 1;
  const Expr all = make_ramp(read->base, Expr(1), std::max(2, elements));
  const Ramp* run = all.as<Ramp>();
  const int divisor = known_divisor(run->base, divisors_);
  std::vector<Chunk> chunks = cut_lanes(elements, t.bytes(), divisor);
  if (t.bytes() == 1 && divisor % 2 == 0) chunks = in_pairs(chunks);
  if (std::all_of(chunks.begin(), chunks.end(), [](const Chunk& c) { return c.count == 1; })) {
    return false;
  }
  const auto remember_element = [&](int element, const Text& x, const WordPart* part = nullptr) {
    for (size_t lane = 0; lane < read->element_of.size(); ++lane) {
      if (read->element_of[lane] != element) continue;
      const Key key{e, static_cast<int>(lane), rounding_};
      remember(key, x);
      if (part) frames_[frame_].words.emplace(key, *part);
    }
  };
  const int per_word = elements_per_word(t);
  if (from.scope == Scope::Local &&
      (from.per_word == 0 || divisor % per_word != 0 || elements % per_word != 0))
    return false;
  for (const Chunk& c : chunks) {
    if (c.count == 1) {
      const Text index = index_at(*run, c.begin);
      const Text x{from.name + "[" + index.s + "]", kAtom, t == i64};
      const Text v = t.is_bool() ? infix(x, "!=", {"0", kAtom}, kEquality) : x;
      remember_element(c.begin, named(e, v, "v"));
      continue;
    }
    const std::vector<std::string> held = words_of(from, *run, c, t);
    for (int i = 0; i < c.count; ++i) {
      const Text word{held[static_cast<size_t>(i / per_word)], kAtom, t == i64};
      Text x = word;
      std::optional<WordPart> part;
      if (per_word == 2) {
        x = call(prelude_.use(i % 2 ? "high16" : "low16"), word);
        if (t == i16) x = converted("short", x);
      } else if (per_word == 4) {
        part = WordPart{word.s, i % 4 * 8};
        x = byte_of(t, word, i % 4);
      }
      remember_element(c.begin + i, x, part ? &*part : nullptr);
    }
  }
  return true;
}

}  // namespace heddle::cuda
