// Barriers, and waiting for asynchronous copies.
#include <algorithm>

#include "codegen/emulator/actions.h"

namespace heddle::emu {
namespace {

class SyncAction final : public Action {
 public:
  SyncAction(Machine* m, const Sync* s) : Action(m, s), kind_(s->sync), pending_(s->pending) {}

  void run(const Active& active) override {
    enter();
    switch (kind_) {
      case SyncKind::Block:
        if (!all(active)) divergent(active);
        machine_->sync_block();
        break;
      case SyncKind::Started:
        if (!all(active)) divergent(active);
        machine_->started();
        break;
      case SyncKind::Warp:
        for (const auto& warp : whole_warps(*machine_, active, "a warp's barrier")) {
          machine_->clock.sync_warp(warp[0] / kWarp);
        }
        break;
      case SyncKind::GroupFence:
        for (const int g : whole_groups(*machine_, active)) machine_->groups.fence(g);
        break;
      case SyncKind::GroupCommit:
        for (const int g : whole_groups(*machine_, active)) machine_->groups.commit(g);
        break;
      // Kernels run one after the other here.
      case SyncKind::GridWait: break;
      case SyncKind::Registers: whole_groups(*machine_, active); break;
      case SyncKind::WarpGroup:
        for (const int g : whole_groups(*machine_, active)) {
          machine_->clock.sync_group(g);
          machine_->stores.sync_group(g);
        }
        break;
      case SyncKind::StoreFence:
        for (const int t : active) machine_->stores.fence(t);
        break;
      case SyncKind::StoreCommit:
        for (const int t : active) machine_->stores.commit(t);
        break;
      case SyncKind::StoreWait:
        for (const int t : active) machine_->stores.wait(t, pending_);
        break;
      case SyncKind::AsyncCommit:
      case SyncKind::AsyncWait:
        if (machine_->cluster > 1) {
          if (!all(active)) divergent(active);
          machine_->receive();
          break;
        }
        for (const int t : active) {
          machine_->thread = t;
          if (kind_ == SyncKind::AsyncCommit) {
            machine_->commit_copies();
          } else {
            machine_->wait_for_copies(pending_);
          }
        }
        machine_->thread = -1;
        break;
    }
  }

 private:
  [[noreturn]] void divergent(const Active& active) {
    int absent = 0;
    while (std::find(active.begin(), active.end(), absent) != active.end()) ++absent;
    machine_->fail("a barrier that " + std::to_string(active.size()) + " of the block's " +
                   std::to_string(machine_->threads) + " threads reach, " +
                   machine_->name_of_thread(active[0]) + " among them but not " +
                   machine_->name_of_thread(absent));
  }

  SyncKind kind_;
  int pending_;
};

}  // namespace

ActionPtr compile_sync(Machine* machine, const Sync* s) {
  return std::make_unique<SyncAction>(machine, s);
}

std::vector<std::vector<int>> whole_warps(Machine& m, const Active& active, const char* what) {
  std::vector<std::vector<int>> warps(static_cast<std::size_t>((m.threads + kWarp - 1) / kWarp));
  for (const int t : active) warps[static_cast<std::size_t>(t / kWarp)].push_back(t);
  for (std::size_t w = 0; w < warps.size(); ++w) {
    const int first = static_cast<int>(w) * kWarp, lanes = std::min(kWarp, m.threads - first);
    if (warps[w].empty() || warps[w].size() == static_cast<std::size_t>(lanes)) continue;
    m.thread = warps[w][0];
    m.fail(std::string(what) + " that " + std::to_string(warps[w].size()) + " of the warp's " +
           std::to_string(lanes) + " lanes reach");
  }
  std::erase_if(warps, [](const auto& w) { return w.empty(); });
  for (auto& w : warps) std::sort(w.begin(), w.end());
  return warps;
}

}  // namespace heddle::emu
