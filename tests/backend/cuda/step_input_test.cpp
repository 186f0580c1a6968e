// Tests that embed() copies to the device the input that the host wrote for this step, even after failed
// launches. Needs a GPU, or an emulated GPU.
#include "backend/cuda/step/step_input.h"
#include "backend/cuda/input/draft_slots.h"
#include "backend/cuda/input/row_input.h"
#include "backend/cuda/input/step_exchange.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <vector>

#include "backend/cuda/memory/workspace.h"
#include "backend/cuda/verify/device_array.h"
#include "backend/draft_tree.h"
#include "tests/backend/cuda/pretended.h"

namespace nibble::cuda {
namespace {

constexpr int kVocab{100}, kHidden{8};
constexpr size_t kInputBytes{4096};

// A step of two sequences, each with one token and two pages of each kind.
class StepInputs : public testing::Test {
 protected:
  StepInputs() {
    config_.vocab = kVocab;
    options_.max_batch_tokens = 8;
    options_.num_pages = 32;
    for (int turn : {0, 1}) {
      inputs_[turn] = PinnedBuffer(sizeof(InputHeader) + max_input_bytes(options_));
      outputs_[turn] = PinnedBuffer(sizeof(StepOutput));
      work_.exchange.inputs[turn] = inputs_[turn].as<InputHeader>();
      work_.exchange.outputs[turn] = outputs_[turn].as<StepOutput>();
    }
    work_.step = step_.data();
    upload_.emplace(config_, options_, work_.exchange, work_.step);
  }

  StepShape upload(TokenId token) {
    const TokenId tokens[]{token, token + 1};
    const PageId pages[]{PageId(token % 13), PageId(token % 13 + 1)};
    const SampleParams greedy;
    const OutputRow output{.token_index = 0, .sample = &greedy};
    std::vector<nibble::Run> runs;
    for (const TokenId& own : tokens)
      runs.push_back({.tokens = {&own, 1},
                      .first_position = token,
                      .full = {.pages = pages},
                      .sliding = {.pages = pages},
                      .outputs = {&output, 1}});
    return upload_->upload({.runs = runs}, stream_);
  }
  void run_embed(const StepShape& shape) {
    embed({stream_, this_target()}, shape.num_tokens,
          {work_.exchange,
           device_input_.data(),
           reinterpret_cast<const __nv_bfloat16*>(embedding_.data()),
           kHidden,
           x_.data(),
           step_.data(),
           ticket_.data(),
           nullptr,
           {}});
    stream_.wait();
  }
  uint32_t device_step() const {
    uint32_t step = 0;
    check(cudaMemcpy(&step, step_.data(), sizeof step, cudaMemcpyDeviceToHost), "reading");
    return step;
  }
  // Compares the input that embed() copied with the batch.
  void expect_input(const StepShape& shape, TokenId token) {
    alignas(16) std::array<uint8_t, kInputBytes> brought;
    check(cudaMemcpy(brought.data(), device_input_.data(), brought.size(), cudaMemcpyDeviceToHost),
          "reading");
    const InputParts in = parts_of(brought.data(), shape);
    for (int row = 0; row < 2; ++row) {
      EXPECT_EQ(in.rows[row].token.id(), token + row);
      EXPECT_EQ(in.rows[row].position, token);
      EXPECT_EQ(in.sample[row].temperature, 0);
      EXPECT_EQ(in.output_rows[row], row);
      for (const uint32_t first : {in.rows[row].full_pages, in.rows[row].sliding_pages})
        for (uint32_t page = 0; page < 2; ++page)
          EXPECT_EQ(in.page_ids[first + page], static_cast<uint32_t>(token % 13) + page);
    }
  }

  Config config_;
  BackendOptions options_;
  PinnedBuffer inputs_[2], outputs_[2];
  Workspace work_;
  verify::DeviceArray<uint32_t> step_{std::vector<uint32_t>(1)};
  verify::DeviceArray<unsigned> ticket_{std::vector<unsigned>(1)};
  verify::DeviceArray<uint8_t> device_input_{kInputBytes};
  verify::DeviceArray<uint16_t> embedding_{std::vector<uint16_t>(kVocab * kHidden)};
  verify::DeviceArray<float> x_{4 * kHidden};
  OwnedStream stream_;
  std::optional<InputUpload> upload_;
};

TEST_F(StepInputs, TheHostIsAStepAhead) {
  StepShape shape = upload(1);
  for (TokenId token = 1; token < 20; ++token) {
    upload_->count_launch();
    const StepShape next = upload(token + 1);  // written before the device has begun the current step
    run_embed(shape);
    expect_input(shape, token);
    EXPECT_EQ(outputs_[token % 2].as<StepOutput>()->step, upload_->step());
    shape = next;
  }
}

TEST_F(StepInputs, ABatchWithoutTokensTakesNoTurn) {
  for (TokenId token = 1; token < 6; ++token) {
    EXPECT_EQ(upload_->upload({}, stream_).num_tokens, 0);
    const StepShape shape = upload(token);
    upload_->count_launch();
    for (int n = 0; n < token; ++n) EXPECT_EQ(upload_->upload({}, stream_).num_tokens, 0);
    run_embed(shape);
    expect_input(shape, token);
  }
}

TEST_F(StepInputs, ALaunchThatFailedBeforeItsEmbedTakesNoTurn) {
  for (TokenId token = 1; token < 30; token += 3) {
    upload(token);
    const StepShape shape = upload(token + 1);
    upload_->count_launch();
    run_embed(shape);
    expect_input(shape, token + 1);
  }
}

TEST_F(StepInputs, ALaunchThatFailedAfterItsEmbedTakesATurn) {
  for (TokenId token = 1; token < 30; token += 3) {
    run_embed(upload(token));
    const StepShape shape = upload(token + 1);
    upload_->count_launch();
    run_embed(shape);
    expect_input(shape, token + 1);
  }
  EXPECT_EQ(upload_->step(), device_step());
}

TEST_F(StepInputs, WithAnAdapterNameItForEachRowAndHaveSpareRowsWithoutOne) {
  options_.adapters = std::make_shared<const RequestAdapters>(2);
  upload_.emplace(config_, options_, work_.exchange, work_.step);
  const TokenId tokens[]{5, 6};
  const PageId pages[]{PageId{3}};
  const nibble::Run run{.tokens = tokens,
                        .first_position = 7,
                        .full = {.pages = pages},
                        .sliding = {.pages = pages},
                        .adapter = AdapterId{1}};
  const StepShape shape = upload_->upload({.runs = {&run, 1}}, stream_);
  EXPECT_TRUE(shape.have_adapters);
  EXPECT_EQ(shape.num_tokens, kLeastAdaptedRows);
  EXPECT_EQ(shape.num_outputs, 0);  // spare rows have outputs only in graphs
  run_embed(shape);
  alignas(16) std::array<uint8_t, kInputBytes> brought;
  check(cudaMemcpy(brought.data(), device_input_.data(), brought.size(), cudaMemcpyDeviceToHost), "reading");
  const InputParts in = parts_of(brought.data(), shape);
  for (const int row : {0, 1}) {
    EXPECT_EQ(in.adapters[row].bits, 1) << row;
    EXPECT_EQ(in.rows[row].position, 7 + row);
    EXPECT_EQ(in.page_ids[in.rows[row].full_pages], 3u);
  }
  EXPECT_FALSE(in.adapters[2].has_value());
  EXPECT_EQ(in.page_ids[in.rows[2].full_pages], static_cast<uint32_t>(options_.num_pages));
  EXPECT_EQ(upload(1).have_adapters, false);
}

// With sequences of its own, the second of two ranks gets all rows. For attention it gets only its own rows,
// with page ids relative to its own KV cache. The rank's own rows are padded with spare rows.
TEST_F(StepInputs, ARankWithSequencesOfItsOwnFindsTheirRowsAmongAll) {
  options_.num_kv_caches = 2;
  upload_.emplace(config_, options_, work_.exchange, work_.step, /*rank=*/1);
  const SampleParams greedy;
  const OutputRow output{.token_index = 0, .sample = &greedy};
  const TokenId tokens[]{11, 12, 13, 14};
  const auto pages_of = [&](int cache, int page) {
    return static_cast<PageId>(cache * options_.num_pages + page);
  };
  const std::array<PageId, 1> pages[]{{pages_of(0, 3)}, {pages_of(1, 5)}, {pages_of(0, 4)}, {pages_of(1, 0)}};
  std::vector<nibble::Run> runs;
  for (size_t n = 0; n < 4; ++n)
    runs.push_back({.tokens = {&tokens[n], 1},
                    .first_position = static_cast<int>(n),
                    .full = {.pages = pages[n]},
                    .sliding = {.pages = pages[n]},
                    .outputs = {&output, 1}});
  const StepShape shape = upload_->upload({.runs = runs}, stream_);
  EXPECT_EQ(shape.num_tokens, 4);
  EXPECT_EQ(shape.num_own_rows, kLeastOwnRows);
  EXPECT_EQ(shape.num_single_rows, kLeastOwnRows);
  upload_->count_launch();
  run_embed(shape);
  alignas(16) std::array<uint8_t, kInputBytes> brought;
  check(cudaMemcpy(brought.data(), device_input_.data(), brought.size(), cudaMemcpyDeviceToHost), "reading");
  const InputParts in = parts_of(brought.data(), shape);
  for (int row = 0; row < 4; ++row) EXPECT_EQ(in.rows[row].token.id(), tokens[row]);
  EXPECT_EQ(std::vector<int>(in.own_rows, in.own_rows + 2), (std::vector<int>{1, 3}));
  EXPECT_EQ(std::vector<int>(in.own_of_rows, in.own_of_rows + 4), (std::vector<int>{-1, 0, -1, 1}));
  // The last page is the spare page.
  const uint32_t own_pages[]{5, 0, static_cast<uint32_t>(options_.num_pages)};
  const int positions[]{1, 3, 0};
  for (int row = 0; row < kLeastOwnRows; ++row) {
    const RowInput& own = in.step().rows[row];
    EXPECT_EQ(own.position, positions[row]) << row;
    for (const uint32_t first : {own.full_pages, own.sliding_pages})
      EXPECT_EQ(in.page_ids[first], own_pages[row]) << row;
  }
}

// The step has a decoding sequence, then a tree with forks and longer branches, then a chain of drafts, then
// spare rows.
TEST_F(StepInputs, ARowOfATreeFindsItsPositionsOnItsPath) {
  options_.max_batch_tokens = 24;
  for (int turn : {0, 1}) {
    inputs_[turn] = PinnedBuffer(sizeof(InputHeader) + max_input_bytes(options_));
    work_.exchange.inputs[turn] = inputs_[turn].as<InputHeader>();
  }
  upload_.emplace(config_, options_, work_.exchange, work_.step);
  const std::vector<TokenId> tokens{5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const std::vector<int> parents{-1, 0, 1, 1, 3, 4, 2, 6, 7, 4, 9};
  const PageId pages[]{PageId{3}, PageId{9}};
  const SampleParams greedy;
  std::vector<OutputRow> outputs;
  for (int row = 0; row < 11; ++row) outputs.push_back({.token_index = row, .sample = &greedy});
  const auto run_of = [&](size_t num_tokens, int num_drafted) {
    return nibble::Run{.tokens = std::span(tokens).first(num_tokens),
                       .first_position = 26,
                       .full = {.pages = pages},
                       .sliding = {.pages = pages},
                       .outputs = std::span(outputs).first(num_tokens),
                       .drafted = {.count = num_drafted}};
  };
  nibble::Run tree = run_of(11, 9);
  tree.drafted.parents = parents;
  const nibble::Run runs[]{run_of(1, 0), tree, run_of(3, 2)};
  const StepShape shape = upload_->upload({.runs = runs}, stream_);
  EXPECT_TRUE(shape.have_trees);
  EXPECT_TRUE(shape.is_recorded());
  EXPECT_EQ(shape.num_tokens, 16) << "one is spare";
  EXPECT_EQ(shape.num_runs, 16);
  ASSERT_EQ(upload_->trees().size(), 1u);
  EXPECT_EQ(upload_->trees()[0].run, 1u);
  EXPECT_EQ(upload_->trees()[0].first_row, 1);
  EXPECT_EQ(upload_->trees()[0].last_known, 1);
  upload_->count_launch();
  x_ = verify::DeviceArray<float>(16 * kHidden);
  run_embed(shape);
  alignas(16) std::array<uint8_t, kInputBytes> brought;
  check(cudaMemcpy(brought.data(), device_input_.data(), brought.size(), cudaMemcpyDeviceToHost), "reading");
  const InputParts in = parts_of(brought.data(), shape);
  int row = 0;
  for (const nibble::Run& run : runs) {
    const DraftRun& draft_run = in.draft_runs[&run - runs];
    EXPECT_EQ(draft_run.first_row, row);
    EXPECT_EQ(draft_run.is_tree, !run.drafted.parents.empty());
    int slot = 26;
    for (const PlaceInRun& place : places_of(run)) {
      SCOPED_TRACE(row);
      EXPECT_EQ(in.rows[row].position, place.position);
      EXPECT_EQ(in.sample[row].position.position(), place.position + 1);
      EXPECT_EQ(in.slots[row], slot);
      EXPECT_EQ(in.parents[row], parent_of(run.drafted.parents, static_cast<size_t>(slot - 26)));
      for (int seen = 0; seen <= place.position; ++seen) {
        const RowPath path = in.paths[row];
        const int found = seen < path.first
                              ? seen
                              : static_cast<int>(in.page_ids[path.slots + static_cast<uint32_t>(seen)]);
        EXPECT_EQ(found, slot_of(seen, place.position, place.path)) << seen;
      }
      ++row, ++slot;
    }
  }
  EXPECT_EQ(in.slots[row], 0);
  EXPECT_EQ(in.paths[row].first, kNoPath);
  for (int run = 4; run < 16; ++run) EXPECT_EQ(in.draft_runs[run].num_rows, 0);
}

// Sequences with a common prefix share its pages. So the tables of a step can have more entries than the
// cache has pages.
TEST_F(StepInputs, SequencesThatShareAllTheirPagesHaveATableEach) {
  BackendOptions options = options_;
  options.num_pages = 200;
  options.max_table_pages = 8 * 200;
  StepExchange exchange = work_.exchange;
  std::array<PinnedBuffer, 2> inputs;
  for (size_t turn : {0, 1}) {
    inputs[turn] = PinnedBuffer(sizeof(InputHeader) + max_input_bytes(options));
    exchange.inputs[turn] = inputs[turn].as<InputHeader>();
  }
  InputUpload upload(config_, options, exchange, work_.step);
  std::vector<PageId> pages;
  for (uint32_t page = 0; page < 200; ++page) pages.push_back(PageId{page});
  const std::span<const PageId> all(pages);
  const TokenId token{1};
  const SampleParams greedy;
  const OutputRow output{.token_index = 0, .sample = &greedy};
  const std::vector<nibble::Run> runs(8, {.tokens = {&token, 1},
                                          .first_position = 100 * kPageTokens - 1,
                                          .full = {.pages = all.first(100)},
                                          .sliding = {.pages = all.last(100)},
                                          .outputs = {&output, 1}});
  EXPECT_EQ(upload.upload({.runs = runs}, stream_).num_tokens, 8);
}

using StepInputsDeathTest = StepInputs;
TEST_F(StepInputsDeathTest, AStepIsCountedOnce) {
  EXPECT_DEATH(upload_->count_launch(), "step 1 has no input");
  upload(1);
  upload_->count_launch();
  EXPECT_DEATH(upload_->count_launch(), "step 2 has no input");
}

}  // namespace
}  // namespace nibble::cuda
