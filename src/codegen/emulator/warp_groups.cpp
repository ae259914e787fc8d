#include "codegen/emulator/warp_groups.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "codegen/emulator/machine.h"
#include "codegen/interpreter/value.h"
#include "ir/fold.h"

namespace heddle::emu {
namespace {

constexpr std::int64_t kEightRows = 8 * kBoxRowBytes, kBoxOf64 = 64 * kBoxRowBytes;

std::string name_of(const Storage& s) { return "'" + s.buffer->name + "'"; }

// The sum of 8-bit floats of one wgmma: terms are aligned to the largest one, and what lies 13 bits
// below its first bit is cut (DeepSeek-V3 Technical Report, arXiv:2412.19437, section 3.5.2).
double short_sum(const std::vector<double>& terms) {
  constexpr int kBits = 13;
  double most = 0;
  for (const double t : terms) {
    if (!std::isfinite(t)) return std::accumulate(terms.begin(), terms.end(), 0.0);
    most = std::max(most, std::abs(t));
  }
  if (most == 0) return 0;
  const double unit = std::ldexp(1.0, std::ilogb(most) - kBits);
  double sum = 0;
  for (const double t : terms) sum += std::trunc(t / unit) * unit;
  return sum;
}

}  // namespace

std::int64_t GroupOperand::element_bytes() const { return storage->buffer->dtype.bytes(); }

// PTX's canonical layouts for the 128-byte swizzle. Groups of eight rows are 1024 bytes apart.
// Where rows run across the depth, boxes of 64 lines follow each other after 64 rows.
std::int64_t GroupOperand::element(int line, int k) const {
  const std::int64_t row = across ? k : line, in_row = (across ? line % 64 : k) * element_bytes();
  const std::int64_t box = across ? line / 64 * kBoxOf64 : 0;
  const std::int64_t byte =
      swizzled(address + box + row / 8 * kEightRows + row % 8 * kBoxRowBytes + in_row);
  return (byte - storage->shared_offset) / element_bytes();
}

std::pair<std::int64_t, std::int64_t> GroupOperand::bytes() const {
  std::int64_t first = element(0, 0), last = first;
  for (int line = 0; line < lines; ++line) {
    for (int k = 0; k < depth(); ++k) {
      first = std::min(first, element(line, k));
      last = std::max(last, element(line, k));
    }
  }
  return {storage->shared_offset + first * element_bytes(),
          storage->shared_offset + (last + 1) * element_bytes()};
}

std::int64_t Box::element(int row, int column) const {
  const std::int64_t bytes = kBoxRowBytes / columns;
  return (swizzled(address + row * kBoxRowBytes + column * bytes) - tile->shared_offset) / bytes;
}

bool Box::begins_at_window() const {
  for (std::size_t d = 0; d < windows.size(); ++d) {
    const WindowDim& w = windows[d];
    const std::int64_t distance = at[1 + d] - w.first;
    if (distance < 0 || distance % w.stride != 0 || distance / w.stride >= w.points) return false;
  }
  return true;
}

// TMA counts the windows of an image along its dimensions, then goes on to the next image.
std::vector<std::int64_t> Box::indices(int row, int column) const {
  std::vector<std::int64_t> out = at;
  out.back() += column;
  if (windows.empty()) {
    out[static_cast<std::size_t>(row_dim)] += row;
    return out;
  }
  std::int64_t number = at[0];
  for (std::size_t d = 0; d < windows.size(); ++d) {
    number = number * windows[d].points + (at[1 + d] - windows[d].first) / windows[d].stride;
  }
  number += row;
  for (std::size_t d = windows.size(); d-- > 0;) {
    const WindowDim& w = windows[d];
    out[1 + d] = w.first + number % w.points * w.stride + offsets[d];
    number /= w.points;
  }
  out[0] = number;
  return out;
}

std::optional<std::int64_t> Box::position(int row, int column) const {
  const std::vector<std::int64_t> place = indices(row, column);
  std::int64_t position = 0;
  for (std::size_t d = 0; d < place.size(); ++d) {
    if (place[d] < 0 || place[d] >= extents[d]) return std::nullopt;
    position = position * extents[d] + place[d];
  }
  return position;
}

void WarpGroups::start_block() {
  barriers_.clear();
  groups_.assign(static_cast<std::size_t>((m_.threads + kGroup - 1) / kGroup), {});
  reads_.clear();
  if (m_.rank == 0) shared_.clear();
  matched_ = 0;
}

void WarpGroups::finish_block() {
  if (m_.rank > 0 && matched_ != shared_.size())
    m_.fail("a block of a pair waits for boxes that its neighbour does not share");
  for (const auto& [place, b] : barriers_) {
    if (!b.loads.empty()) m_.fail("a box is still under way to " + name_of(*b.loads[0].tile));
  }
  for (const Group& g : groups_) {
    if (!g.products.empty()) m_.fail("a product of a warp group that nothing waits for");
  }
}

WarpGroups::Group& WarpGroups::group(int g) { return groups_.at(static_cast<std::size_t>(g)); }

// ---- barriers ----

WarpGroups::Barrier& WarpGroups::at(Place p) {
  const auto found = barriers_.find(p);
  if (found == barriers_.end()) {
    m_.fail("the barrier " + name_of(*p.first) + "[" + std::to_string(p.second) +
            "] is used before it is initialised");
  }
  return found->second;
}

void WarpGroups::init(Place barrier, int arrivals) {
  if (barriers_.contains(barrier)) m_.fail("a barrier is initialised twice");
  Barrier& b = barriers_[barrier];
  b.arrivals = b.missing = arrivals;
}

void WarpGroups::end_phase(Barrier& b) {
  if (b.missing > 0 || b.bytes != 0) return;
  b.missing = b.arrivals;
  ++b.phase;
  strands.note_progress();
}

void WarpGroups::arrive(Place barrier, int thread, std::int64_t bytes, int arrivals) {
  Barrier& b = at(barrier);
  if (b.missing < arrivals) m_.fail("more arrivals at a barrier than its phase takes");
  b.missing -= arrivals;
  b.bytes += bytes;
  strands.note_progress();
  for (Reads& r : reads_) {
    if (r.group == thread / kGroup && r.complete) r.released = true;
  }
  end_phase(b);
}

void WarpGroups::wait(Place barrier, std::int64_t parity) {
  for (;;) {
    Barrier& b = at(barrier);
    if (static_cast<std::int64_t>(b.phase & 1) != parity) return;
    if (!b.loads.empty()) {
      deliver(b);
      continue;
    }
    const int thread = m_.thread;
    const StmtNode* statement = m_.program.context.statement;
    if (!strands.give_way()) {
      m_.fail("a wait that has no end, for " + name_of(*barrier.first) + "[" +
              std::to_string(barrier.second) + "]: " + std::to_string(b.missing) +
              " arrivals and " + std::to_string(b.bytes) + " bytes are missing");
    }
    m_.thread = thread;
    m_.program.context.statement = statement;
  }
}

// ---- boxes ----

void WarpGroups::load(Place barrier, Box box) {
  if (box.shared) {
    std::vector<std::int64_t> what = box.at;
    what.push_back(box.address);
    if (m_.rank == 0) {
      shared_.push_back(std::move(what));
    } else if (matched_ >= shared_.size() || shared_[matched_++] != what) {
      m_.fail("the blocks of a pair load different boxes together");
    }
  }
  std::int64_t first = box.element(0, 0), last = first;
  for (int r = 0; r < box.rows; ++r) {
    for (int c = 0; c < box.columns; ++c) {
      const std::int64_t i = box.element(r, c);
      if (i < 0 || i >= box.tile->size) m_.fail("a box lies outside of " + name_of(*box.tile));
      State& state = box.tile->states[static_cast<std::size_t>(i)];
      if (state == State::InFlight) m_.fail("two boxes at a time for " + name_of(*box.tile));
      state = State::InFlight;
      first = std::min(first, i);
      last = std::max(last, i);
    }
  }
  const std::int64_t bytes = box.tile->buffer->dtype.bytes(),
                     begin = box.tile->shared_offset + first * bytes,
                     end = box.tile->shared_offset + (last + 1) * bytes;
  std::erase_if(reads_, [&](const Reads& r) {
    if (r.end <= begin || end <= r.begin) return false;
    if (!r.released) {
      m_.fail("a box for " + name_of(*box.tile) + ", which warp group " + std::to_string(r.group) +
              " has not released after its product");
    }
    return true;
  });
  at(barrier).loads.push_back(std::move(box));
  strands.note_progress();
}

void WarpGroups::deliver(Barrier& b) {
  const int thread = m_.thread;
  for (const Box& box : b.loads) {
    m_.thread = box.thread;
    for (int r = 0; r < box.rows; ++r) {
      for (int c = 0; c < box.columns; ++c) {
        const std::optional<std::int64_t> from = box.position(r, c);
        const auto to = static_cast<std::size_t>(box.element(r, c));
        Slot value = from ? m_.read(const_cast<Storage&>(*box.source), *from) : Slot{};
        if (box.tile->buffer->dtype == f32) value.f = rounded_to_tf32(value.f);
        box.tile->values[to] = value;
        box.tile->states[to] = State::Written;
      }
    }
    b.bytes -= box.rows * kBoxRowBytes;
  }
  m_.thread = thread;
  b.loads.clear();
  if (b.bytes < 0) m_.fail("more bytes arrive at a barrier than it expects");
  end_phase(b);
}

// ---- products ----

// PTX's map of a fragment of A: element 4*h + 2*i + j of a lane is row lane / 4 + 8*i of the 16
// rows of its warp, and step 8*h + 2*(lane % 4) + j.
std::size_t WarpGroups::place(int g, const GroupOperand& o, int line, int k) const {
  if (o.registers.empty()) return static_cast<std::size_t>(o.element(line, k));
  const int thread = line / 16 * kWarp + line % 8 * 4 + k / 2 % 4,
            element = k / 8 * 4 + line % 16 / 8 * 2 + k % 2;
  return static_cast<std::size_t>(
      (o.registers[static_cast<std::size_t>(thread)] + element) * m_.threads + g * kGroup + thread);
}

void WarpGroups::read_registers(int g, const GroupOperand& o) {
  for (const std::int64_t first : o.registers) {
    if (first < 0 || first + o.lines * o.depth() / kGroup > o.storage->size)
      m_.fail("a wgmma with registers outside of " + name_of(*o.storage));
  }
  for (int line = 0; line < o.lines; ++line) {
    for (int k = 0; k < o.depth(); ++k) {
      if (o.storage->states[place(g, o, line, k)] == State::Unwritten)
        m_.fail("a wgmma reads " + name_of(*o.storage) + ", never written");
    }
  }
}

void WarpGroups::read(int g, const GroupOperand& o) {
  if (!o.registers.empty()) return read_registers(g, o);
  if (o.address % 16 != 0) m_.fail("the tile of a wgmma is not aligned to 16 bytes");
  for (int line = 0; line < o.lines; ++line) {
    for (int k = 0; k < o.depth(); ++k) {
      const std::int64_t i = o.element(line, k);
      if (i < 0 || i >= o.storage->size) m_.fail("a wgmma reads outside of " + name_of(*o.storage));
      if (o.storage->states[static_cast<std::size_t>(i)] != State::Written) {
        m_.fail("a wgmma reads " + name_of(*o.storage) + "[" + std::to_string(i) +
                "], which has not arrived");
      }
    }
  }
  const auto [begin, end] = o.bytes();
  reads_.push_back({g, begin, end, false, false});
}

void WarpGroups::multiply(int g, GroupProduct p) {
  Group& of = group(g);
  if (!of.fenced) m_.fail("a wgmma with no fence before it");
  for (const GroupOperand* o : {&p.a, &p.b}) read(g, *o);
  for (int lane = 0; lane < kGroup; ++lane) {
    m_.thread = g * kGroup + lane;
    for (int i = 0; i < p.b.lines / 2; ++i) {
      const std::int64_t r = p.registers[static_cast<std::size_t>(lane)] + i;
      if (r < 0 || r >= p.c->size) m_.fail("a wgmma with registers outside of " + name_of(*p.c));
      const State state = p.c->states[static_cast<std::size_t>(r * m_.threads + m_.thread)];
      if (state == State::Unwritten && !p.begins)
        m_.fail("a wgmma adds to " + name_of(*p.c) + ", never written");
    }
  }
  mark(g, p);
  of.products.push_back(std::move(p));
  ++of.open;
}

// Registers of a product in flight must not be read or written: its accumulators, and its left
// operand where that is a fragment.
void WarpGroups::mark(int g, const GroupProduct& p) {
  for (int lane = 0; lane < kGroup; ++lane) {
    for (int i = 0; i < p.b.lines / 2; ++i) {
      const std::int64_t r = p.registers[static_cast<std::size_t>(lane)] + i;
      p.c->states[static_cast<std::size_t>(r * m_.threads + g * kGroup + lane)] = State::InFlight;
    }
  }
  if (p.a.registers.empty()) return;
  for (int line = 0; line < p.a.lines; ++line) {
    for (int k = 0; k < p.a.depth(); ++k)
      p.a.storage->states[place(g, p.a, line, k)] = State::InFlight;
  }
}

void WarpGroups::commit(int g) { group(g).committed.push_back(std::exchange(group(g).open, 0)); }

void WarpGroups::wait_for_products(int g, int pending) {
  Group& of = group(g);
  while (of.committed.size() > static_cast<std::size_t>(pending)) {
    for (std::size_t n = of.committed.front(); n > 0; --n) {
      run(g, of.products.front());
      of.products.pop_front();
    }
    of.committed.pop_front();
  }
  // Products that ended may share registers with those that are still in flight.
  for (const GroupProduct& p : of.products) mark(g, p);
  if (of.products.empty()) of.fenced = false;
}

std::vector<double> WarpGroups::values(int g, const GroupOperand& o) {
  std::vector<double> out;
  for (int line = 0; line < o.lines; ++line) {
    for (int k = 0; k < o.depth(); ++k) {
      const Slot v = o.storage->values[place(g, o, line, k)];
      out.push_back(o.storage->buffer->dtype.is_float() ? v.f : static_cast<double>(v.i));
    }
  }
  return out;
}

void WarpGroups::complete_reads(int g, const GroupOperand& o) {
  if (!o.registers.empty()) {
    for (int line = 0; line < o.lines; ++line) {
      for (int k = 0; k < o.depth(); ++k) o.storage->states[place(g, o, line, k)] = State::Written;
    }
    return;
  }
  const auto range = o.bytes();
  for (Reads& r : reads_) {
    if (r.group == g && !r.complete && r.begin == range.first && r.end == range.second) {
      r.complete = true;
      return;
    }
  }
}

// PTX's map of the accumulators: register 4*t + 2*h + j of a lane is row lane / 4 + 8*h of the 16
// rows of its warp, and column 8*t + 2*(lane % 4) + j.
void WarpGroups::run(int g, const GroupProduct& p) {
  const std::vector<double> a = values(g, p.a), b = values(g, p.b);
  const int depth = p.a.depth();
  const bool integers = !p.c->buffer->dtype.is_float();
  std::vector<double> terms(static_cast<std::size_t>(1 + depth));
  for (int thread = 0; thread < kGroup; ++thread) {
    const int lane = thread % kWarp;
    for (int i = 0; i < p.b.lines / 2; ++i) {
      const int row = thread / kWarp * 16 + lane / 4 + 8 * (i / 2 % 2),
                column = i / 4 * 8 + lane % 4 * 2 + i % 2;
      const auto at = static_cast<std::size_t>(
          (p.registers[static_cast<std::size_t>(thread)] + i) * m_.threads + g * kGroup + thread);
      // Integers are exact in double: a sum of 32 products of bytes and one 32-bit number.
      terms[0] = integers ? static_cast<double>(p.c->values[at].i) : p.c->values[at].f;
      if (p.begins) terms[0] = 0;
      for (int k = 0; k < depth; ++k) {
        terms[static_cast<std::size_t>(1 + k)] = a[static_cast<std::size_t>(row * depth + k)] *
                                                 b[static_cast<std::size_t>(column * depth + k)];
      }
      const double sum = p.a.storage->buffer->dtype.is_float8()
                             ? short_sum(terms)
                             : std::accumulate(terms.begin(), terms.end(), 0.0);
      if (integers) {
        p.c->values[at].i = interp::Int<std::int32_t>::wrap(static_cast<std::int64_t>(sum));
      } else {
        p.c->values[at].f = interp::F32::round(sum);
      }
      p.c->states[at] = State::Written;
    }
  }
  complete_reads(g, p.a);
  complete_reads(g, p.b);
}

}  // namespace heddle::emu
