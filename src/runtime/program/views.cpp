#include "runtime/program/views.h"

#include "heddle/support/error.h"

namespace heddle {

void check_views(const std::string& name, std::span<const KernelArg> args,
                 std::span<const ProgramView> views, std::span<const int64_t> sizes) {
  for (const ProgramView& view : views) {
    if (view.fits(sizes)) continue;
    const int64_t first = view.first.at(sizes), rows = view.rows.at(sizes),
                  capacity = view.capacity.at(sizes);
    throw_runtime_error("the call of '" + name + "' writes rows " + std::to_string(first) + " to " +
                            std::to_string(first + rows - 1) + " of '" + args[view.argument].name +
                            "', which has " + std::to_string(capacity) + " rows",
                        {}, "pass arrays of sizes that fit, or an array of more rows");
  }
}

}  // namespace heddle
