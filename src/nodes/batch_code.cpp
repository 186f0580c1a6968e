// Layout of an encoded batch, a sequence of 32-bit numbers:
//   totals: number of runs, tokens, pages, outputs
//   for each run: number of tokens, first position, number of full pages, first full page,
//            number of sliding pages, first sliding page, number of outputs
//   tokens of all runs; then the pages of each run (full, then sliding); then token indices of the outputs
#include "nodes/batch_code.h"

#include <algorithm>

#include "core/errors/check.h"

namespace nibble::nodes {
namespace {

constexpr size_t kWord{sizeof(uint32_t)}, kHeadWords{4}, kRunWords{7};

size_t total_words(size_t runs, size_t tokens, size_t pages, size_t outputs) {
  return kHeadWords + runs * kRunWords + tokens + pages + outputs;
}

struct Counts {
  size_t runs{0}, tokens{0}, pages{0}, outputs{0};
  size_t bytes() const { return kWord * total_words(runs, tokens, pages, outputs); }
};

// Reads a number. Throws InputError if it is not below `end`.
int below(Reader& reader, uint32_t end, const char* what) {
  const auto value = reader.number<uint32_t>();
  if (value >= end) throw InputError("{} {} is out of range: it must be below {}", what, value, end);
  return static_cast<int>(value);
}
int at_most(Reader& reader, int most, const char* what) {
  return below(reader, static_cast<uint32_t>(most) + 1, what);
}

// Throws InputError unless the table's pages cover the positions `first_read` to `end` - 1.
void check_reach(const PageTableView& table, int first_read, int end) {
  const int end_page = table.first_page + static_cast<int>(table.pages.size());
  if (first_read / kPageTokens < table.first_page || (end - 1) / kPageTokens >= end_page)
    throw InputError("pages {2} to {3} do not cover positions {0} to {1}", first_read, end - 1,
                     table.first_page, end_page - 1);
}

int num_pages_of(const Config& config) { return (config.max_context + kPageTokens - 1) / kPageTokens; }

struct RunSizes {  // number of tokens, pages and outputs of one run
  size_t tokens, full, sliding, outputs;
};

size_t read_count(Reader& reader) { return reader.number<uint32_t>(); }

Counts read_counts(Reader& reader, size_t num_bytes, size_t most_rows) {
  const Counts all{read_count(reader), read_count(reader), read_count(reader), read_count(reader)};
  // Check each count before bytes() adds them up: the sum could overflow.
  if (all.runs > most_rows || all.tokens > most_rows || all.outputs > most_rows || all.pages > num_bytes ||
      all.bytes() != num_bytes)
    throw InputError(
        "invalid step: {} runs, {} tokens, {} pages and {} outputs in {} bytes; at most {} rows are accepted",
        all.runs, all.tokens, all.pages, all.outputs, num_bytes, most_rows);
  return all;
}

// Reads the headers of all runs. Appends the runs to `runs`, still without tokens and pages. Returns the
// sizes of each run.
std::vector<RunSizes> read_runs(Reader& reader, const Counts& all, const Config& config,
                                std::vector<Run>& runs) {
  std::vector<RunSizes> sizes;
  Counts seen;
  for (size_t i = 0; i < all.runs; ++i) {
    Run& run = runs.emplace_back();
    RunSizes& size = sizes.emplace_back();
    size.tokens = read_count(reader);
    run.first_position = below(reader, static_cast<uint32_t>(config.max_context), "position");
    size.full = read_count(reader);
    run.full.first_page = at_most(reader, num_pages_of(config), "page");
    size.sliding = read_count(reader);
    run.sliding.first_page = at_most(reader, num_pages_of(config), "page");
    size.outputs = read_count(reader);
    seen.tokens += size.tokens;
    seen.pages += size.full + size.sliding;
    seen.outputs += size.outputs;
    if (size.tokens == 0 || size.outputs > size.tokens)
      throw InputError("invalid step: run {} has no tokens, or more outputs than tokens", i);
  }
  if (seen.tokens != all.tokens || seen.pages != all.pages || seen.outputs != all.outputs)
    throw InputError("invalid step: its totals do not match its runs");
  return sizes;
}

std::vector<PageId> read_pages(Reader& reader, std::span<const RunSizes> sizes, const Room& room) {
  std::vector<PageId> pages;
  for (const RunSizes& size : sizes)
    for (size_t i = 0; i < size.full + size.sliding; ++i)
      pages.push_back(static_cast<PageId>(below(reader, static_cast<uint32_t>(room.num_pages), "page")));
  return pages;
}

std::vector<OutputRow> read_outputs(Reader& reader, std::span<const RunSizes> sizes) {
  std::vector<OutputRow> outputs;
  for (const RunSizes& size : sizes) {
    int next = 0;
    for (size_t i = 0; i < size.outputs; ++i) {
      const int index = below(reader, static_cast<uint32_t>(size.tokens), "output");
      if (index < next) throw InputError("invalid step: the indices of outputs must ascend");
      next = index + 1;
      outputs.push_back({.token_index = index, .prompt = {}, .output = {}});
    }
  }
  return outputs;
}

// Returns `num` elements of `all` from index `first` on, and advances `first`.
template <typename T>
std::span<T> take(std::vector<T>& all, size_t& first, size_t num) {
  const std::span taken(all.data() + first, num);
  first += num;
  return taken;
}

}  // namespace

size_t most_bytes(const Room& room, const Config& config) {
  const auto rows = static_cast<size_t>(room.max_batch_tokens);
  return Counts{rows, rows, rows * 2 * static_cast<size_t>(num_pages_of(config)), rows}.bytes();
}

Bytes encode(const Batch& batch) {
  Counts all{.runs = batch.runs.size()};
  for (const Run& run : batch.runs) {
    NIBBLE_CHECK(!run.adapter, "an adapter in a step of several nodes");
    all.tokens += run.tokens.size();
    all.pages += run.full.pages.size() + run.sliding.pages.size();
    all.outputs += run.outputs.size();
  }
  Writer writer;
  const auto put = [&](auto value) { writer.number(static_cast<uint32_t>(value)); };
  for (const size_t count : {all.runs, all.tokens, all.pages, all.outputs}) put(count);
  for (const Run& run : batch.runs) {
    put(run.tokens.size());
    put(run.first_position);
    for (const PageTableView* table : {&run.full, &run.sliding}) {
      put(table->pages.size());
      put(table->first_page);
    }
    put(run.outputs.size());
  }
  for (const Run& run : batch.runs)
    for (const TokenId token : run.tokens) put(token);
  for (const Run& run : batch.runs)
    for (const PageTableView* table : {&run.full, &run.sliding})
      for (const PageId page : table->pages) put(page);
  for (const Run& run : batch.runs)
    for (const OutputRow& output : run.outputs) put(output.token_index);
  return writer.take();
}

ReceivedBatch::ReceivedBatch(std::span<const uint8_t> bytes, const Room& room, const Config& config) {
  Reader reader(bytes);
  const Counts all = read_counts(reader, bytes.size(), static_cast<size_t>(room.max_batch_tokens));
  const std::vector<RunSizes> sizes = read_runs(reader, all, config, runs_);
  tokens_.resize(all.tokens);
  for (TokenId& token : tokens_) token = below(reader, static_cast<uint32_t>(config.vocab), "token");
  pages_ = read_pages(reader, sizes, room);
  outputs_ = read_outputs(reader, sizes);

  size_t token = 0, page = 0, output = 0;
  for (size_t i = 0; i < all.runs; ++i) {
    Run& run = runs_[i];
    run.tokens = take(tokens_, token, sizes[i].tokens);
    run.full.pages = take(pages_, page, sizes[i].full);
    run.sliding.pages = take(pages_, page, sizes[i].sliding);
    run.outputs = take(outputs_, output, sizes[i].outputs);
    const int end = run.first_position + static_cast<int>(run.tokens.size());
    check_reach(run.full, 0, end);
    check_reach(run.sliding, std::max(0, run.first_position - config.window + 1), end);
  }
}

}  // namespace nibble::nodes
