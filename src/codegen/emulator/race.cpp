#include "codegen/emulator/race.h"

namespace heddle::emu {

void Clock::remember_read(History& h, const Access& a) const {
  if (in_other_block(h.read)) return;  // conflicts with every write from here on already
  if (h.read.phase < phase_) {         // ordered before every access from here on
    h.read = a;
    h.other_read.phase = 0;
    return;
  }
  // The new read conflicts with all later writes that one before a barrier of its warp group
  // conflicts with.
  if (h.other_read.phase == phase_ && ordered_in_group(h.other_read, a.thread))
    h.other_read.phase = 0;
  if (ordered_in_group(h.read, a.thread)) {
    h.read = a;
    return;
  }
  // The read is of this phase. Two reads of different warps conflict with every write: a write of
  // one of the two warps conflicts with the read of the other.
  const bool two = h.other_read.phase == phase_;
  if (two && warp_of(h.read.thread) != warp_of(h.other_read.thread)) return;
  if (warp_of(a.thread) != warp_of(h.read.thread)) {
    h.other_read = a;
  } else if (h.read.warp_phase < a.warp_phase) {  // ordered within the warp, and as good to others
    h.read = a;
    h.other_read.phase = 0;
  } else if (a.thread != h.read.thread && !two) {
    h.other_read = a;
  }
}

}  // namespace heddle::emu
