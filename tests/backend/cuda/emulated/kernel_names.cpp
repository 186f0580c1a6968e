#include "tests/backend/cuda/emulated/kernel_names.h"

#include <cxxabi.h>
#include <elf.h>
#include <link.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <regex>
#include <vector>

namespace nibble::emulated {
namespace {

// Returns the address at which this program is loaded: the difference between an address in memory and the
// same symbol's address in the program's file.
uintptr_t load_address() {
  uintptr_t address = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* to) {
        *static_cast<uintptr_t*>(to) = info->dlpi_addr;
        return 1;  // ends the iteration, which reports the program itself first
      },
      &address);
  return address;
}

// Returns mangled names by address, from the symbol table of the program's file. dladdr() does not find
// kernels, because they are local symbols.
std::map<uintptr_t, std::string> read_symbols() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  const auto at = [&]<typename T>(size_t offset, T) {
    T value;
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
  };
  const auto header = at(0, ElfW(Ehdr){});
  const auto section = [&](size_t index) {
    return at(header.e_shoff + index * header.e_shentsize, ElfW(Shdr){});
  };
  std::map<uintptr_t, std::string> names;
  for (size_t i = 0; i < header.e_shnum; ++i) {
    const auto table = section(i);
    if (table.sh_type != SHT_SYMTAB) continue;
    const size_t strings = section(table.sh_link).sh_offset;
    for (size_t offset = 0; offset < table.sh_size; offset += sizeof(ElfW(Sym))) {
      const auto symbol = at(table.sh_offset + offset, ElfW(Sym){});
      if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC)
        names.emplace(load_address() + symbol.st_value, bytes.data() + strings + symbol.st_name);
    }
  }
  return names;
}

std::string shortened(const std::string& mangled) {
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, nullptr), &std::free);
  std::string name = text ? text.get() : mangled;
  name = std::regex_replace(name, std::regex(R"(\(anonymous namespace\)::|nibble::|cuda::)"), "");
  // Shortens "(Layout)0" to "0".
  name = std::regex_replace(name, std::regex(R"(\(([A-Z]\w*)\)(\d))"), "$2");
  name = std::regex_replace(name, std::regex("^void "), "");
  return name.substr(0, name.find('('));
}

}  // namespace

std::string kernel_name(const void* kernel) {
  static const std::map<uintptr_t, std::string> symbols = read_symbols();
  static std::map<const void*, std::string> names;
  std::string& name = names[kernel];
  if (name.empty()) {
    const auto symbol = symbols.find(reinterpret_cast<uintptr_t>(kernel));
    name = symbol == symbols.end() ? "unknown" : shortened(symbol->second);
  }
  return name;
}

}  // namespace nibble::emulated
