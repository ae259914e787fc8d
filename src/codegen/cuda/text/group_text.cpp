#include "codegen/cuda/text/generated.h"

namespace heddle::cuda {
namespace {

struct Function {
  std::string_view name, needs, text;
};

constexpr Function kFunctions[] = {
    // Barrier 0 is that of __syncthreads.
    {"group_sync", "", R"($ void group_sync() {
  asm volatile("bar.sync %0, 128;" ::"r"(threadIdx.z + 1) : "memory");
})"},
    {"bulk_store_fence", "", R"($ void bulk_store_fence() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
})"},
    {"bulk_store_commit", "", R"($ void bulk_store_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
})"},
    {"bulk_store_wait", "", R"(template <int kPending>
$ void bulk_store_wait() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
})"},
    // Whether `mine` is true in any thread of the warp group.
    {"any_of_group", "", R"($ bool any_of_group(bool mine) {
  int found;
  asm volatile("{ .reg .pred mine, any;\n"
               "  setp.ne.s32 mine, %1, 0;\n"
               "  barrier.cta.red.or.pred any, %2, 128, mine;\n"
               "  selp.s32 %0, 1, 0, any; }"
               : "=r"(found) : "r"((int)mine), "r"(threadIdx.z + 1) : "memory");
  return found;
})"},
    // Whether all others of `all` have arrived. The ticket is then zero again, and what they stored
    // before is visible to all threads of the warp group.
    {"last_to_arrive", "any_of_group", R"($ bool last_to_arrive(unsigned* ticket, unsigned all) {
  bool last = false;
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    unsigned arrived;
    asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(arrived) : "l"(ticket) : "memory");
    last = arrived == all - 1;
    if (last) *ticket = 0;
  }
  last = any_of_group(last);
  __threadfence();
  return last;
})"},
    // Whether this warp group is the last of `all` that arrive, for all of its threads. The tickets
    // wrap around to zero. What all threads stored before is visible to those of the last group.
    {"last_arrival", "group_sync any_of_group",
     R"($ bool last_arrival(unsigned* ticket, unsigned all) {
  bool last = false;
  __threadfence();
  group_sync();
  if (threadIdx.x == 0 && threadIdx.y == 0) last = atomicInc(ticket, all - 1) == all - 1;
  last = any_of_group(last);
  __threadfence();
  return last;
})"},
};

}  // namespace

GeneratedHelpers group_helpers() {
  GeneratedHelpers out;
  for (const Function& f : kFunctions)
    out.push_back(
        {std::string(f.name), std::string(f.needs), true, [&f] { return std::string(f.text); }});
  return out;
}

}  // namespace heddle::cuda
