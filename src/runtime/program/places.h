// Where the parameters of a program's code are, and the memory of its calls. The runtime of exported
// libraries has no other part of a program.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

namespace heddle {

/// What the code of a step is given for one of its parameters.
struct ProgramPlace {
  enum Where : int {
    Argument,  ///< of the call
    Arena,     ///< what passes between steps: bytes from its start
    View,      ///< a part of an argument: the number of a ProgramView
    Array,     ///< a constant of the program
    Size,      ///< of the call; its value takes the place of a pointer
    Nothing,
    Turn,  ///< a place of its own in each turn of a loop: the number of a TurnPlace
    Scratch  ///< of the workspaces of a step on a GPU: bytes from the start of the arena; no parameter
  };
  Where where = Nothing;
  int64_t at = 0;  ///< a number, where no unit is given above
};

/// A sum of the sizes of a call times constants.
struct SizeSum {
  int64_t constant = 0;
  std::vector<int64_t> factors = {};  ///< of each size; those that are left out are 0
  int64_t at(std::span<const int64_t> sizes) const {
    int64_t sum = constant;
    for (size_t i = 0; i < factors.size(); ++i) sum += factors[i] * sizes[i];
    return sum;
  }
};

/// A part of an argument that a step writes: `rows` rows from row `first` on, of `row_bytes` each.
struct ProgramView {
  size_t argument = 0;
  int64_t row_bytes = 0;
  SizeSum first, rows, capacity;  ///< capacity: rows of the argument
  /// Whether the argument of a call of these sizes has the rows.
  bool fits(std::span<const int64_t> sizes) const {
    return first.at(sizes) >= 0 && first.at(sizes) + rows.at(sizes) <= capacity.at(sizes);
  }
  void* address(void* of_argument, std::span<const int64_t> sizes) const {
    return static_cast<char*>(of_argument) + first.at(sizes) * row_bytes;
  }
};

/// Steps that run several times, one turn after the other.
struct ProgramLoop {
  size_t begin = 0, end = 0;  ///< the steps from `begin` to `end` - 1
  SizeSum turns;              ///< at least one
};

/// Where turns of a loop find something. The places within are none of turns.
struct TurnPlace {
  ProgramPlace even, odd;              ///< in turns 0, 2, 4, ... and in turns 1, 3, 5, ...
  ProgramPlace first = {}, last = {};  ///< in the first and in the last turn, unless Nothing
  SizeSum row_bytes = {};              ///< of the rows of `even` and `odd`; 0: they are no rows
  int back = 0;                        ///< what so many turns before have had as their row
  bool reverse = false;                ///< the row of the first turn is the last one
};

/// The addresses that places of one call stand for.
struct CallAddresses {
  std::span<void* const> arguments = {};
  std::span<void* const> views = {};
  char* arena = nullptr;
  std::span<void* const> arrays = {};
  std::span<const int64_t> sizes = {};
  std::span<const TurnPlace> turns = {};
  int64_t turn = 0, count = 1;  ///< of the loop that runs

  void* of(ProgramPlace p) const {
    switch (p.where) {
      case ProgramPlace::Argument: return arguments[static_cast<size_t>(p.at)];
      case ProgramPlace::View: return views[static_cast<size_t>(p.at)];
      case ProgramPlace::Arena:
      case ProgramPlace::Scratch: return arena + p.at;
      case ProgramPlace::Array: return arrays[static_cast<size_t>(p.at)];
      case ProgramPlace::Size: return reinterpret_cast<void*>(sizes[static_cast<size_t>(p.at)]);
      case ProgramPlace::Nothing: return nullptr;
      case ProgramPlace::Turn: return of_turn(turns[static_cast<size_t>(p.at)]);
    }
    return nullptr;
  }
  void* of_turn(const TurnPlace& t) const {
    if (turn == 0 && t.first.where != ProgramPlace::Nothing) return of(t.first);
    if (turn == count - 1 && t.last.where != ProgramPlace::Nothing) return of(t.last);
    const int64_t made = turn - t.back, row = t.reverse ? count - 1 - made : made;
    return static_cast<char*>(of(turn % 2 == 0 ? t.even : t.odd)) + row * t.row_bytes.at(sizes);
  }
  void fill(std::span<const ProgramPlace> places, void** parameters) const {
    for (const ProgramPlace& p : places) *parameters++ = of(p);
  }
};

/// Calls `run` with the number of each of `steps` steps, those of loops once in each turn.
template <class Run>
void run_steps(std::span<const ProgramLoop> loops, size_t steps, CallAddresses& addresses,
               Run run) {
  size_t next = 0;
  for (const ProgramLoop& loop : loops) {
    while (next < loop.begin) run(next++);
    addresses.count = loop.turns.at(addresses.sizes);
    for (addresses.turn = 0; addresses.turn < addresses.count; ++addresses.turn) {
      for (size_t s = loop.begin; s < loop.end; ++s) run(s);
    }
    next = loop.end;
  }
  while (next < steps) run(next++);
}

/// What calls use and give back: as many as there were calls at the same time.
template <class T>
class Pool {
 public:
  /// `make` makes a new one.
  template <class Make>
  T take(Make make) {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        T taken = std::move(free_.back());
        free_.pop_back();
        return taken;
      }
    }
    return make();
  }
  void give_back(T used) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(used));
  }

 private:
  std::mutex mutex_;
  std::vector<T> free_;
};

}  // namespace heddle
