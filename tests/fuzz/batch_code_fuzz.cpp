// Reads any bytes as a step sent by the head of several nodes. Either the step is refused with one line, or a
// backend could run it: every page that it reads or writes exists.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/errors/error.h"
#include "nodes/batch_code.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nibble;
  constexpr nodes::Room kRoom{.num_pages = 30, .max_batch_tokens = 64};
  Config config;
  config.vocab = 1000;
  config.window = 16;
  config.max_context = 4096;
  try {
    const nodes::ReceivedBatch received({data, size}, kRoom, config);
    const Batch batch = received.view();
    size_t num_rows = 0;
    for (const Run& run : batch.runs) {
      num_rows += run.tokens.size();
      for (const TokenId token : run.tokens)
        if (token < 0 || token >= config.vocab) std::abort();
      const int end = run.first_position + static_cast<int>(run.tokens.size());
      const auto check = [](const PageTableView& table, int position, int num_pages) {
        const int index = position / kPageTokens - table.first_page;
        if (index < 0 || index >= static_cast<int>(table.pages.size())) std::abort();
        if (static_cast<uint32_t>(table.pages[static_cast<size_t>(index)]) >=
            static_cast<uint32_t>(num_pages))
          std::abort();
      };
      for (int position = 0; position < end; ++position) {
        check(run.full, position, kRoom.num_pages);
        if (position > run.first_position - config.window) check(run.sliding, position, kRoom.num_pages);
      }
      int last = -1;
      for (const OutputRow& output : run.outputs) {
        if (output.token_index <= last || output.token_index >= static_cast<int>(run.tokens.size()))
          std::abort();
        last = output.token_index;
      }
    }
    if (num_rows > static_cast<size_t>(kRoom.max_batch_tokens)) std::abort();
    // An accepted step must be encoded to the same bytes.
    if (nodes::encode(batch) != nodes::Bytes(data, data + size)) std::abort();
  } catch (const InputError& error) {
    if (std::string_view(error.what()).find('\n') != std::string_view::npos) std::abort();
  }
  return 0;
}
