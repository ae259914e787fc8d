#include "support/files/loaded_file.h"

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

namespace heddle::internal {
namespace {

struct Search {
  std::uintptr_t address = 0;
  FunctionRef<void(const dl_phdr_info&)> visit;
};

bool is_in(const dl_phdr_info& file, std::uintptr_t address) {
  for (int i = 0; i < file.dlpi_phnum; ++i) {
    const ElfW(Phdr)& p = file.dlpi_phdr[i];
    const std::uintptr_t begin = file.dlpi_addr + p.p_vaddr;
    if (p.p_type == PT_LOAD && address >= begin && address < begin + p.p_memsz) return true;
  }
  return false;
}

int look_at(dl_phdr_info* file, std::size_t /*size*/, void* data) {
  const auto& search = *static_cast<Search*>(data);
  if (!is_in(*file, search.address)) return 0;
  search.visit(*file);
  return 1;
}

/// Whether the loader writes to the code itself. Pages that were written to are not in the file.
bool has_written_code(const dl_phdr_info& file) {
  for (int i = 0; i < file.dlpi_phnum; ++i) {
    const ElfW(Phdr)& p = file.dlpi_phdr[i];
    if (p.p_type != PT_DYNAMIC) continue;
    for (auto* d = reinterpret_cast<const ElfW(Dyn)*>(file.dlpi_addr + p.p_vaddr);
         d->d_tag != DT_NULL; ++d) {
      if (d->d_tag == DT_TEXTREL || (d->d_tag == DT_FLAGS && (d->d_un.d_val & DF_TEXTREL) != 0))
        return true;
    }
  }
  return false;
}

}  // namespace

void visit_loaded_file(std::uintptr_t address, FunctionRef<void(const dl_phdr_info&)> visit) {
  Search search{address, visit};
  ::dl_iterate_phdr(look_at, &search);
}

void release_code(std::uintptr_t address) {
  visit_loaded_file(address, [](const dl_phdr_info& file) {
    if (has_written_code(file)) return;
    const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    for (int i = 0; i < file.dlpi_phnum; ++i) {
      const ElfW(Phdr)& p = file.dlpi_phdr[i];
      if (p.p_type != PT_LOAD || (p.p_flags & PF_W) != 0) continue;
      // Whole pages of this segment alone: a neighbour may share the first or the last one.
      const std::uintptr_t begin = (file.dlpi_addr + p.p_vaddr + page - 1) / page * page;
      const std::uintptr_t end = (file.dlpi_addr + p.p_vaddr + p.p_filesz) / page * page;
      if (end > begin) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
    }
  });
}

}  // namespace heddle::internal
