// Facts about a whole kernel that the text of its statements depends on.
#pragma once

#include <array>
#include <unordered_set>

#include "heddle/ir/stmt.h"

namespace heddle::cuda {

struct KernelFacts {
  std::unordered_set<const BufferNode*> read, written;
  bool synchronizes = false;      ///< threads of the kernel wait for each other
  bool passes_registers = false;  ///< warp groups give registers to others
  int loads = 0, multiplies = 0;  ///< the registers of a thread of each role, where they do
  /// Local buffers of elements under 32 bits that tile operations use. They become arrays of 32-bit
  /// words, because those operations take registers.
  std::unordered_set<const BufferNode*> words;
  /// Local buffers to which threads load what lies in memory before they wait for the kernel before. Vectors of
  /// elements under 32 bits are arrays of words, too.
  std::unordered_set<const BufferNode*> ahead;
  /// Dimensions of the grid along which blocks have longer and longer loops. Those begin first, because the last ones to
  /// end run alone.
  std::array<bool, 3> grows = {};
  /// Serial loops whose variable is part of the index of a Local buffer. The buffer can be in
  /// registers only if they are unrolled.
  std::unordered_set<const StmtNode*> register_loops;
};

KernelFacts kernel_facts(const Stmt& body);

}  // namespace heddle::cuda
