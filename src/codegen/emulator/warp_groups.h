// The asynchronous work of TMA and of warp groups. It happens as late as the program allows: a box
// arrives when a thread waits for it, and a product reads its operands when a thread waits for it.
// Using or overwriting data too early is therefore an error.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "codegen/emulator/strands.h"
#include "heddle/ir/buffer.h"

namespace heddle::emu {

class Machine;
struct Storage;

/// Threads of a warp group, and bytes of a row of a box.
constexpr int kGroup = 128;
constexpr std::int64_t kBoxRowBytes = 128;

/// The address at which TMA and wgmma find byte `address` of a tile whose rows of 128 bytes are
/// swizzled.
constexpr std::int64_t swizzled(std::int64_t address) { return address ^ (address >> 7 & 7) << 4; }

/// An operand of wgmma: `lines` rows of A, or columns of B, of 32 bytes of the depth. It is a tile
/// in shared memory or, of A, a fragment in registers.
struct GroupOperand {
  Storage* storage = nullptr;
  std::int64_t address = 0;  ///< address of the first element in shared memory, before the swizzle
  int lines = 0;
  bool across = false;  ///< rows of boxes run across the depth
  /// The first register of a fragment, by thread of the warp group. Empty for a tile.
  std::vector<std::int64_t> registers;

  std::int64_t element_bytes() const;
  int depth() const { return static_cast<int>(32 / element_bytes()); }
  std::int64_t element(int line, int k) const;  ///< its position in the storage
  /// The first byte that it reads, and the byte after the last.
  std::pair<std::int64_t, std::int64_t> bytes() const;
};

struct GroupProduct {
  Storage* c = nullptr;
  bool begins = false;                  ///< the product replaces what the accumulators hold
  std::vector<std::int64_t> registers;  ///< the first one, by thread of the warp group
  GroupOperand a, b;
};

struct Box {
  Storage* tile = nullptr;
  std::int64_t address = 0;  ///< in shared memory, before the swizzle
  int rows = 0, columns = 0, row_dim = 0;
  const Storage* source = nullptr;
  std::vector<std::int64_t> at, extents;  ///< of the source, outermost first
  /// Of rows that are windows: the dimensions between the first and the last one, and the offset
  /// within each window along them.
  std::vector<WindowDim> windows;
  std::vector<std::int64_t> offsets;
  int thread = 0;
  bool shared = false;  ///< each block of a pair loads a half, for both

  std::int64_t element(int row, int column) const;
  /// Whether the coordinates are those of a window.
  bool begins_at_window() const;
  /// The indices in the source of an element, which may lie outside of it.
  std::vector<std::int64_t> indices(int row, int column) const;
  /// Its position in the source; nullopt outside of it.
  std::optional<std::int64_t> position(int row, int column) const;
};

class WarpGroups {
 public:
  explicit WarpGroups(Machine& m) : m_(m) {}
  void start_block();
  /// Fails where an operation is still in flight.
  void finish_block();

  // Barriers are elements of shared memory.
  using Place = std::pair<const Storage*, std::int64_t>;
  void init(Place barrier, int arrivals);
  /// `arrivals` arrivals by `thread`; the phase then expects `bytes` more. A block of a pair runs
  /// alone in the emulator: the arrivals of its neighbour, which runs the same program, and its
  /// halves of shared boxes come with its own. It is checked that both blocks share the same boxes
  /// in the same order.
  void arrive(Place barrier, int thread, std::int64_t bytes, int arrivals = 1);
  void wait(Place barrier, std::int64_t parity);

  void load(Place barrier, Box box);

  // A fence of warp group `g`.
  void fence(int g) { group(g).fenced = true; }
  void multiply(int g, GroupProduct product);
  void commit(int g);
  void wait_for_products(int g, int pending);

  Strands strands;

 private:
  struct Barrier {
    int arrivals = 0, missing = 0;
    std::int64_t bytes = 0;  // expected and not arrived
    std::uint32_t phase = 0;
    std::vector<Box> loads;
  };
  struct Reads {
    int group;
    std::int64_t begin, end;
    bool complete, released;
  };
  struct Group {
    std::deque<GroupProduct> products;
    std::deque<std::size_t> committed;  // sizes of the groups
    std::size_t open = 0;               // products that are not committed
    bool fenced = false;
  };

  Barrier& at(Place p);
  Group& group(int g);
  void end_phase(Barrier& b);
  void deliver(Barrier& b);
  void run(int g, const GroupProduct& p);
  std::size_t place(int g, const GroupOperand& o, int line, int k) const;
  void mark(int g, const GroupProduct& p);
  void read(int g, const GroupOperand& o);
  void read_registers(int g, const GroupOperand& o);
  void complete_reads(int g, const GroupOperand& o);
  std::vector<double> values(int g, const GroupOperand& o);

  Machine& m_;
  std::map<Place, Barrier> barriers_;
  std::vector<Group> groups_;
  std::vector<Reads> reads_;  // of tiles since they were loaded
  // Places and coordinates of the boxes that the first block of a pair shared, and how many of them
  // the second one shared so far.
  std::vector<std::vector<std::int64_t>> shared_;
  std::size_t matched_ = 0;
};

}  // namespace heddle::emu
