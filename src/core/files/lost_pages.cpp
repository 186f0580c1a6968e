#include "core/files/lost_pages.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <new>

namespace nibble {
namespace {

// Global and never freed, because a signal handler can only reach globals and must not take locks. An entry
// is valid while `begin` is not null; entries are reused, but stay in the list.
struct NamedPages {
  std::atomic<const std::byte*> begin{nullptr};
  std::atomic<const std::byte*> end{nullptr};
  char path[512]{};
  NamedPages* next{nullptr};
};
std::atomic<NamedPages*> first_pages{nullptr};
std::atomic<int> lost_pages_exit_code{0};
std::mutex pages_mutex;  // taken by writers only, not by the signal handler

void write_text(const char* text) {
  const size_t length = std::strlen(text);
  if (::write(STDERR_FILENO, text, length) < 0) return;  // stderr is closed: only the exit code remains
}

void on_bus_error(int, siginfo_t* info, void*) {
  const auto* address = static_cast<const std::byte*>(info->si_addr);
  for (const NamedPages* pages = first_pages.load(); pages; pages = pages->next) {
    const std::byte* begin = pages->begin.load();
    if (!begin || address < begin || address >= pages->end.load()) continue;
    write_text("nibble: ");
    write_text(pages->path);
    write_text(": cannot be read any more: it was cut short after it was opened, or its disk failed\n");
    ::_exit(lost_pages_exit_code.load());
  }
  ::signal(SIGBUS, SIG_DFL);  // the address is in no mapped file: default action
  ::raise(SIGBUS);
}

}  // namespace

void exit_on_lost_pages(int exit_code) {
  lost_pages_exit_code = exit_code;
  struct sigaction action {};
  action.sa_sigaction = &on_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

void name_pages(std::span<const std::byte> bytes, const std::filesystem::path& path) {
  const std::lock_guard lock(pages_mutex);
  NamedPages* pages = first_pages;
  while (pages && pages->begin.load()) pages = pages->next;
  const bool is_new = !pages;
  if (is_new && !(pages = new (std::nothrow) NamedPages)) return;  // out of memory: SIGBUS keeps its effect
  const std::string& text = path.native();
  const size_t length = text.copy(pages->path, sizeof(pages->path) - 1);
  pages->path[length] = '\0';
  pages->end = bytes.data() + bytes.size();
  pages->begin = bytes.data();
  if (!is_new) return;
  pages->next = first_pages;
  first_pages = pages;
}

void forget_pages(std::span<const std::byte> bytes) {
  const std::lock_guard lock(pages_mutex);
  for (NamedPages* pages = first_pages; pages; pages = pages->next)
    if (pages->begin.load() == bytes.data()) pages->begin = nullptr;
}

}  // namespace nibble
