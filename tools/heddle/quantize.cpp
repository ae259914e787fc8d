// heddle quantize: an f32 model as one with 8-bit integers, by the values that samples show.
#include "heddle/quantize/quantize.h"

#include <iostream>
#include <map>

#include "commands.h"
#include "common/output_file.h"
#include "heddle/runtime/npz.h"
#include "heddle/runtime/thread_pool.h"
#include "subjects/target_text.h"

namespace heddle::cli {

int run_quantize(const Request& options) {
  check_writable(options.output);
  const ScopedThreads threads(target_of(options.target, options.threads).cores);
  const std::map<std::string, NDArray> samples = load_npz(options.data);
  const QuantizeReport report = quantize_onnx(options.subject, samples, options.output,
                                              {.method = range_method_of(options.method),
                                               .percentile = options.percentile,
                                               .per_channel = !options.per_tensor,
                                               .activations = dtype_of(options.dtype),
                                               .keep = options.keep_nodes,
                                               .batch = options.batch},
                                              {});
  if (options.json)
    std::cout << report.to_json().dump(2) << "\n";
  else
    std::cout << report.to_string() << "in " << options.output << "\n";
  return 0;
}

}  // namespace heddle::cli
