// How the iterations of a loop run: what they are bound to, and what more there is to say of that.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace heddle {

/// What the iterations of a loop are. The block and thread bindings make the loop an index of a GPU
/// grid. Where their iterations run one after the other, they give the same result (see
/// lower/gpu_program.h).
enum class Binding : uint8_t {
  Serial,
  Parallel,
  Vectorized,
  Unrolled,
  BlockX,
  BlockY,
  BlockZ,
  ThreadX,
  ThreadY,
  ThreadZ,
  Tensorized,         ///< the outermost loop of a nest that one instruction computes
  LastBlock,          ///< one iteration: the last block to finish of the kernel before runs it
  SoftwarePipelined,  ///< serial; an iteration may begin before the previous one has ended
                      ///< (lower/passes/row_pipeline.cpp)
  PairX,  ///< two iterations, in two neighbouring blocks at the same time, which load together what
          ///< both need; inside of a persistent loop
};

/// How blocks share the iterations of a loop over blockIdx.x.
struct Persistence {
  /// As many blocks as the GPU holds at a time run each its share, one after the other.
  bool persists = false;
  /// Where the last round has too few iterations for all blocks, several blocks share each of them:
  /// every block runs a part of the reduction (stream-K, Osama et al. 2023).
  bool streams = false;
  /// The two warp groups of a block take turns: one multiplies while the other one stores
  /// (ping-pong).
  bool alternates = false;
  friend constexpr bool operator==(const Persistence&, const Persistence&) = default;
};

/// The name of an instruction (heddle/instruction/instruction.h), or none. It is as cheap to copy
/// and to compare as a pointer.
class InstructionName {
 public:
  constexpr InstructionName() = default;
  explicit InstructionName(const std::string& name);  ///< "" is none
  constexpr explicit operator bool() const { return text_ != nullptr; }
  const std::string& text() const;  ///< "" where there is none
  friend constexpr bool operator==(const InstructionName&, const InstructionName&) = default;

 private:
  const std::string* text_ = nullptr;  // one for each name, for the life of the process
};

/// How the iterations of a loop run.
struct LoopKind {
  Binding binding = Binding::Serial;
  /// The number of blocks of a BlockX loop that run each iteration together and share the
  /// iterations of its threadIdx.x loops: 1, 2, 4 or 8.
  uint8_t cluster = 1;
  Persistence persistence = {};      ///< of a BlockX loop
  InstructionName instruction = {};  ///< of a Tensorized loop: what its nest becomes

  static const LoopKind Serial, Parallel, Vectorized, Unrolled, BlockX, BlockY, BlockZ, ThreadX,
      ThreadY, ThreadZ, LastBlock, SoftwarePipelined, PairX;
  static constexpr LoopKind clusters(int blocks);
  static constexpr LoopKind persistent(bool streams = false, bool alternates = false);
  static constexpr LoopKind tensorized(InstructionName instruction = {});
  /// The loop over threads along dimension 0, 1 or 2 of a block.
  static constexpr LoopKind threads(int dim);

  /// Steps of schedules hold kinds without instructions as numbers, which never change.
  int64_t number() const;
  static std::optional<LoopKind> of_number(int64_t number);
  friend constexpr bool operator==(const LoopKind&, const LoopKind&) = default;
};
inline constexpr LoopKind LoopKind::Serial{Binding::Serial}, LoopKind::Parallel{Binding::Parallel},
    LoopKind::Vectorized{Binding::Vectorized}, LoopKind::Unrolled{Binding::Unrolled},
    LoopKind::BlockX{Binding::BlockX}, LoopKind::BlockY{Binding::BlockY},
    LoopKind::BlockZ{Binding::BlockZ}, LoopKind::ThreadX{Binding::ThreadX},
    LoopKind::ThreadY{Binding::ThreadY}, LoopKind::ThreadZ{Binding::ThreadZ},
    LoopKind::LastBlock{Binding::LastBlock},
    LoopKind::SoftwarePipelined{Binding::SoftwarePipelined}, LoopKind::PairX{Binding::PairX};
constexpr LoopKind LoopKind::clusters(int blocks) {
  return {Binding::BlockX, static_cast<uint8_t>(blocks)};
}
constexpr LoopKind LoopKind::persistent(bool streams, bool alternates) {
  return {Binding::BlockX, 1, {true, streams, alternates}};
}
constexpr LoopKind LoopKind::tensorized(InstructionName instruction) {
  return {Binding::Tensorized, 1, {}, instruction};
}
constexpr LoopKind LoopKind::threads(int dim) {
  return dim == 0 ? ThreadX : dim == 1 ? ThreadY : ThreadZ;
}
/// The name of a kind, as it is printed.
const char* to_string(LoopKind kind);
/// Whether as many blocks as the GPU holds at a time run the iterations of the loop.
constexpr bool is_persistent(LoopKind k) { return k.persistence.persists; }
/// Whether the loop is bound to clusters of blocks, to a block index, or to a thread index.
constexpr bool is_cluster(LoopKind k) { return k.cluster > 1; }
constexpr bool is_block(LoopKind k) {
  return k.binding >= Binding::BlockX && k.binding <= Binding::BlockZ;
}
constexpr bool is_thread(LoopKind k) {
  return k.binding >= Binding::ThreadX && k.binding <= Binding::ThreadZ;
}
constexpr bool is_tensorized(LoopKind k) { return k.binding == Binding::Tensorized; }
/// 0, 1, 2 for the x, y, z of a block or thread loop.
constexpr int grid_dim(LoopKind k) {
  return static_cast<int>(k.binding) -
         static_cast<int>(is_block(k) ? Binding::BlockX : Binding::ThreadX);
}

}  // namespace heddle
