#include "codegen/emulator/bulk_stores.h"

#include <algorithm>

#include "codegen/emulator/machine.h"

namespace heddle::emu {
namespace {

std::string name_of(const Storage& s) { return "'" + s.buffer->name + "'"; }

}  // namespace

void BulkStores::finish_block() {
  for (const auto& [thread, q] : queues_) {
    if (q.open.empty() && q.groups.empty()) continue;
    const Box& box = q.open.empty() ? q.groups[0][0] : q.open[0];
    m_.fail("TMA may still read " + name_of(*box.tile) +
            " when the block ends: " + m_.name_of_thread(thread) + " does not wait for its store");
  }
}

void BulkStores::add_tile(Storage* s) {
  s->unseen.assign(static_cast<std::size_t>(s->size), 0);
  if (std::find(tiles_.begin(), tiles_.end(), s) == tiles_.end()) tiles_.push_back(s);
}

void BulkStores::fence(int thread) {
  for (Storage* s : tiles_) {
    for (int& u : s->unseen) {
      if (u == thread + 1) u = -u;
    }
  }
}

void BulkStores::sync_group(int g) {
  for (Storage* s : tiles_) {
    for (int& u : s->unseen) {
      if (u < 0 && (-u - 1) / kGroup == g) u = 0;
    }
  }
}

void BulkStores::sync_block() {
  for (Storage* s : tiles_) {
    for (int& u : s->unseen) u = std::max(u, 0);
  }
}

void BulkStores::store(Box box) {
  for (int r = 0; r < box.rows; ++r) {
    for (int c = 0; c < box.columns; ++c) {
      const std::int64_t i = box.element(r, c);
      if (i < 0 || i >= box.tile->size) m_.fail("a box lies outside of " + name_of(*box.tile));
      State& state = box.tile->states[static_cast<std::size_t>(i)];
      if (state == State::InFlight)
        m_.fail("two boxes at a time from one place of " + name_of(*box.tile));
      const int by = box.tile->unseen[static_cast<std::size_t>(i)];
      if (by != 0) {
        m_.fail("TMA copies an element of " + name_of(*box.tile) + " that " +
                m_.name_of_thread(std::abs(by) - 1) + " stored: no " +
                (by > 0 ? "StoreFence" : "barrier after its StoreFence") + " came before");
      }
      // What nothing stored lies beyond the ends, or is read too early.
      if (state == State::Written) state = State::InFlight;
    }
  }
  queues_[box.thread].open.push_back(std::move(box));
}

void BulkStores::commit(int thread) {
  Queue& q = queues_[thread];
  q.groups.push_back(std::exchange(q.open, {}));
}

void BulkStores::wait(int thread, int pending) {
  Queue& q = queues_[thread];
  while (q.groups.size() > static_cast<std::size_t>(pending)) {
    for (const Box& box : q.groups.front()) copy(box);
    q.groups.erase(q.groups.begin());
  }
}

void BulkStores::copy(const Box& box) {
  const int before = std::exchange(m_.thread, box.thread);
  for (int r = 0; r < box.rows; ++r) {
    for (int c = 0; c < box.columns; ++c) {
      const std::optional<std::int64_t> to = box.position(r, c);
      const std::int64_t from = box.element(r, c);
      State& state = box.tile->states[static_cast<std::size_t>(from)];
      if (state == State::InFlight) state = State::Written;
      if (to) m_.write(const_cast<Storage&>(*box.source), *to, m_.read(*box.tile, from));
    }
  }
  m_.thread = before;
}

bool BulkStores::arrive_if_last(Place ticket, std::int64_t all) {
  return tickets_[ticket] + 1 == all && arrive(ticket, all);
}

bool BulkStores::arrive(Place ticket, std::int64_t all) {
  std::int64_t& n = tickets_[ticket];
  if (++n < all) return false;
  n = 0;
  return true;
}

void BulkStores::finish_launch() {
  for (const auto& [place, n] : tickets_) {
    if (n != 0) m_.fail("a ticket of " + name_of(*place.first) + " waits for more arrivals");
  }
}

}  // namespace heddle::emu
