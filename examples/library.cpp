// Chats with libnibble: library MODEL. Reads a question from each line of standard input.
// Build against an installed nibble by CMake: find_package(nibble REQUIRED), then link nibble::nibble.
#include <iostream>
#include <nibble.hpp>
#include <string>

namespace {

void answer(nibble::Session& session, const std::string& question) {
  session.send(question);
  while (const auto event = session.next_event()) {
    if (event->type == NIBBLE_EVENT_TEXT) std::cout << event->text << std::flush;
    if (event->type == NIBBLE_EVENT_FINISHED)
      std::cerr << "\n(" << event->num_cached_tokens << " of " << event->num_prompt_tokens
                << " tokens of the prompt were known)\n";
  }
  std::cout << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: " << argv[0] << " MODEL\n";
    return 2;
  }
  try {
    const auto progress = [](const char* task, uint64_t done, uint64_t total) {
      if (done == total) std::cerr << task << ": done\n";
    };
    nibble::Model model(argv[1], {{"temperature", "0"}, {"context", "1024"}}, progress);
    nibble::Session session(model);
    for (std::string question; std::getline(std::cin, question);) answer(session, question);
  } catch (const nibble::Error& error) {
    std::cerr << nibble_status_name(error.status()) << ": " << error.what() << "\n";
    return 1;
  }
  return 0;
}
