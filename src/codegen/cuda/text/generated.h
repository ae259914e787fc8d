// The helper functions of the CUDA text that are generated, because they are many and alike. They follow all
// others in the text, in the order of their names.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace heddle::cuda {

struct GeneratedHelper {
  std::string name;
  std::string needs;                  ///< other helpers that it calls, separated by blanks
  bool ptx;                           ///< made of PTX instructions
  std::function<std::string()> text;  ///< $ stands for what makes a function inline
};
using GeneratedHelpers = std::vector<GeneratedHelper>;

/// Products by mma.sync, one for each form of mma_instruction().
GeneratedHelpers mma_helpers();
/// Matrices from shared memory, one for each number of them that a form of ldmatrix_instruction() has, transposed and
/// as floats.
GeneratedHelpers ldmatrix_helpers();
/// Products by warp groups, one for each number of columns and type.
GeneratedHelpers wgmma_helpers();
/// Copies by TMA, for each number of dimensions.
GeneratedHelpers bulk_helpers();
/// What warp groups that store results call: barriers of a group, groups of copies by TMA, and tickets.
GeneratedHelpers group_helpers();
/// Conversions of both formats of 8-bit floats. Those to them saturate (support/numbers/float8.h).
GeneratedHelpers float8_helpers();
/// The smaller and the larger of two 16-bit floats, of both formats. A NaN is the result where there is one, as
/// in min_f32.
GeneratedHelpers short_extrema_helpers();
/// Numbers of few bits as floats (few_bits.cpp), and of 16-bit floats pairs times their scale.
GeneratedHelpers few_bits_helpers();

}  // namespace heddle::cuda
