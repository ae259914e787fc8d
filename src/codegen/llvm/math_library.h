#pragma once

namespace heddle::codegen {

/// glibc's vector mathematics, loaded once; null where there is none.
void* libmvec();

}  // namespace heddle::codegen
