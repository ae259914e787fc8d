#include "codegen/emulator/machine.h"

#include <algorithm>

#include "heddle/ir/print.h"

namespace heddle::emu {
namespace {

template <typename Element>
Slot get_int(const void* elements, std::int64_t position) {
  Slot v;
  v.i = Element::read(static_cast<const typename Element::Storage*>(elements)[position]);
  return v;
}
template <typename Element>
Slot get_float(const void* elements, std::int64_t position) {
  Slot v;
  v.f = Element::read(static_cast<const typename Element::Storage*>(elements)[position]);
  return v;
}
template <typename Element>
void put_int(void* elements, std::int64_t position, Slot v) {
  static_cast<typename Element::Storage*>(elements)[position] = Element::write(v.i);
}
template <typename Element>
void put_float(void* elements, std::int64_t position, Slot v) {
  static_cast<typename Element::Storage*>(elements)[position] = Element::write(v.f);
}

std::string first_line(const StmtNode* statement) {
  const std::string text = to_string(Stmt(statement));
  return text.substr(0, text.find('\n'));
}

std::string element(const Storage& s, std::int64_t position) {
  return "'" + s.buffer->name + "'[" + std::to_string(position) + "]";
}

}  // namespace

void Storage::hold(const Buffer& b, NDArray contents, bool written) {
  buffer = b;
  array = std::move(contents);
  size = array.size();
  if (!written) states.assign(static_cast<std::size_t>(size), State::Unwritten);
  if (b->dtype.is_float()) {
    interp::with_float_type(b->dtype, [&](auto t) {
      get = get_float<decltype(t)>;
      put = put_float<decltype(t)>;
    });
  } else {
    interp::with_int_type(b->dtype, [&](auto t) {
      get = get_int<decltype(t)>;
      put = put_int<decltype(t)>;
    });
  }
}

void Storage::hold(const Buffer& b, std::int64_t elements, int threads) {
  buffer = b;
  size = elements;
  const std::int64_t copies = b->scope == Scope::Local ? threads : 1;
  values.resize(static_cast<std::size_t>(size * copies));
  states.assign(values.size(), State::Unwritten);
}

void Machine::enter_shared(Storage& s) {
  const std::string name = "'" + s.buffer->name + "'";
  const auto slot = std::find_if(slots_.begin(), slots_.end(),
                                 [&](const auto& x) { return x.buffer == s.buffer; });
  if (slot == slots_.end()) fail("the kernel has no place in shared memory for " + name);
  const std::int64_t bytes = s.buffer->dtype.bytes(), begin = slot->offset,
                     end = begin + s.size * bytes;
  if (begin < 0 || begin % 16 != 0 || end > shared_bytes_) {
    fail(name + " lies in the bytes " + std::to_string(begin) + " to " + std::to_string(end) +
         " of shared memory, of which the kernel has " + std::to_string(shared_bytes_) +
         "; offsets are multiples of 16");
  }
  for (const Live& other : live_) {
    if (begin < other.end && other.begin < end) {
      fail(name + " overlaps '" + other.buffer->name + "' in shared memory");
    }
  }
  live_.push_back({s.buffer.get(), begin, end});
  s.shared_offset = begin;
  s.history = &shared_[static_cast<std::size_t>(begin / piece_)];
  s.histories = static_cast<int>(bytes / piece_);
}

void Machine::start_block(const std::array<std::int64_t, 3>& at) {
  block = at;
  thread = -1;
  clock.start_block();
  copies_.assign(static_cast<std::size_t>(threads), {});
  started_ = cluster == 1;
  unseen_.clear();
  sent_.clear();
  groups.start_block();
  stores.start_block();
}

void Machine::start_tail() {
  start_block({0, 0, 0});
  clock.order_all();
}

void Machine::finish_block() {
  groups.finish_block();
  stores.finish_block();
  if (unseen_.empty()) return;
  fail("a block of the cluster may be gone when " + unseen_ +
       " is stored in its memory: no barrier comes after");
}

void Machine::sync_block() {
  if (!started_) fail("a barrier of a cluster before Started");
  unseen_.clear();
  clock.sync_block();
  stores.sync_block();
}

void Machine::store_in_cluster(const Storage& s, std::int64_t position) {
  if (!started_) {
    fail("a store to " + element(s, position) +
         " of blocks of the cluster that may not have begun: no Started came before");
  }
  if (unseen_.empty()) unseen_ = element(s, position);
}

void Machine::start_copy(Storage& s, std::int64_t position, Slot value) {
  claim(s, position);
  s.states[static_cast<std::size_t>(position)] = State::InFlight;
  copies_[static_cast<std::size_t>(thread)].copies.push_back({&s, position, value});
}

void Machine::send(Storage& s, std::int64_t position, Slot value) {
  std::string unseen = unseen_;
  claim(s, position);
  unseen_ = std::move(unseen);  // readers wait for the arrival and not for a barrier
  const auto i = static_cast<std::size_t>(position);
  s.values[i] = value;
  s.states[i] = State::InFlight;
  if (std::find(sent_.begin(), sent_.end(), &s) == sent_.end()) sent_.push_back(&s);
}

void Machine::receive() {
  for (Storage* s : sent_) {
    for (std::int64_t i = 0; i < s->size; ++i) {
      State& state = s->states[static_cast<std::size_t>(i)];
      if (state != State::InFlight) {
        fail("a wait that has no end: nothing is sent to " + element(*s, i));
      }
      state = State::Written;
    }
    // What was sent is ordered before all later accesses.
    std::fill_n(s->history, s->size * s->histories, History{});
  }
  sent_.clear();
}

void Machine::commit_copies() {
  CopyQueue& q = copies_[static_cast<std::size_t>(thread)];
  q.groups.push_back(q.copies.size());
}

void Machine::wait_for_copies(int pending) {
  CopyQueue& q = copies_[static_cast<std::size_t>(thread)];
  const auto kept = static_cast<std::size_t>(pending);
  if (q.groups.size() <= kept) return;
  const std::size_t complete = q.groups.size() - kept, end = q.groups[complete - 1];
  for (std::size_t i = 0; i < end; ++i) {
    const Copy& c = q.copies[i];
    // No other thread accessed the element since the copy began, so the write counts as of now.
    c.storage->states[static_cast<std::size_t>(c.position)] = State::Unwritten;
    write(*c.storage, c.position, c.value);
  }
  q.copies.erase(q.copies.begin(), q.copies.begin() + static_cast<std::ptrdiff_t>(end));
  q.groups.erase(q.groups.begin(), q.groups.begin() + static_cast<std::ptrdiff_t>(complete));
  for (std::size_t& g : q.groups) g -= end;
}

void Machine::check_settled(const Storage& s) {
  if (std::find(sent_.begin(), sent_.end(), &s) != sent_.end()) {
    fail("what is sent to '" + s.buffer->name + "' is not received where the buffer's scope ends");
  }
  for (std::size_t t = 0; t < copies_.size(); ++t) {
    for (const Copy& c : copies_[t].copies) {
      if (c.storage != &s) continue;
      thread = static_cast<int>(t);
      fail("an asynchronous copy to " + element(s, c.position) +
           " is not complete where the buffer's scope ends: nothing waits for it");
    }
  }
}

std::string Machine::name_of_thread(int t) const {
  auto i = thread_index(t);
  std::string of;
  if (cluster > 1) {
    const std::int64_t each = block_dim[0] / cluster;
    of = " of block " + std::to_string(i[0] / each) + " of its cluster";
    i[0] %= each;
  }
  return "thread (" + std::to_string(i[0]) + ", " + std::to_string(i[1]) + ", " +
         std::to_string(i[2]) + ")" + of;
}

void Machine::unreadable(const Storage& s, std::int64_t position, State state) const {
  if (state == State::Unwritten) {
    fail("read of " + element(s, position) + ", which was never written");
  }
  if (s.buffer->scope == Scope::Local) {
    fail("access to " + element(s, position) +
         ", which a product of the warp group may still change: no wait for it came before");
  }
  if (!s.unseen.empty()) {
    fail("access to " + element(s, position) +
         ", which TMA may still read: no StoreWait for its copy came before");
  }
  std::string by = "another thread";
  for (std::size_t t = 0; t < copies_.size(); ++t) {
    const auto& copies = copies_[t].copies;
    if (std::any_of(copies.begin(), copies.end(),
                    [&](const Copy& c) { return c.storage == &s && c.position == position; })) {
      by = name_of_thread(static_cast<int>(t));
    }
  }
  fail("access to " + element(s, position) + ", to which an asynchronous copy of " + by +
       " is not complete: no AsyncWait for its group came before");
}

void Machine::race(const Storage& s, std::int64_t position, const History& h, const Access& earlier,
                   bool writes) const {
  const bool other_block = clock.in_other_block(earlier);
  fail("race on " + element(s, position) + ": " +
       (&earlier == &h.write ? "written by " : "read by ") + name_of_thread(earlier.thread) +
       (other_block ? " of another block" : "") + " in `" + first_line(earlier.statement) +
       "`, then " + (writes ? "written by " : "read by ") + name_of_thread(thread) +
       (other_block ? "" : " with no barrier between"));
}

}  // namespace heddle::emu
