// If the bytes of a mapped file are gone (the file was cut short, the disk failed), reading them raises
// SIGBUS. These functions turn the signal into one line on stderr and an exit code.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace nibble {

// After this call, a lost page of a mapping known to name_pages() ends the process with `exit_code`. Other
// bus errors have their usual effect. To be called once, by main.
void exit_on_lost_pages(int exit_code);

// Tells the handler which file is mapped at `bytes`, until forget_pages(). Thread-safe.
void name_pages(std::span<const std::byte> bytes, const std::filesystem::path& path);
void forget_pages(std::span<const std::byte> bytes);

}  // namespace nibble
