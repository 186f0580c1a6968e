// Tests that embed brings the input that the host has put there for its step, whatever became of the launches before it.
#include "backend/cuda/step_input.h"

#include <gtest/gtest.h>

#include <vector>

#include "backend/cuda/kernels.h"
#include "backend/cuda/workspace.h"
#include "tests/backend/cuda/pretended.h"

namespace nibble::cuda {
namespace {

constexpr int kVocab{100}, kHidden{8};

// A step of two sequences, of which each has a token and two pages of either kind.
class StepInputs : public testing::Test {
 protected:
  StepInputs() {
    config_.vocab = kVocab;
    options_.max_batch_tokens = 8;
    options_.num_full_pages = options_.num_sliding_pages = 16;
    for (int turn : {0, 1}) {
      inputs_[turn] = PinnedBuffer(sizeof(InputHeader) + max_input_bytes(options_));
      outputs_[turn] = PinnedBuffer(sizeof(StepOutput));
      work_.exchange.inputs[turn] = inputs_[turn].as<InputHeader>();
      work_.exchange.outputs[turn] = outputs_[turn].as<StepOutput>();
    }
    work_.step = &step_;
    upload_.emplace(config_, options_, work_);
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
          {work_.exchange, device_input_.data(), reinterpret_cast<const __nv_bfloat16*>(embedding_.data()),
           kHidden, reinterpret_cast<float*>(x_.data()), &step_, &ticket_, nullptr});
  }
  // Compares what embed has brought with the batch.
  void expect_input(const StepShape& shape, TokenId token) {
    const InputParts in = parts_of(device_input_.data(), shape);
    for (int row = 0; row < 2; ++row) {
      EXPECT_EQ(in.rows[row].token, token + row);
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
  uint32_t step_{0};
  unsigned ticket_{0};
  alignas(16) std::array<uint8_t, 4096> device_input_{};
  std::vector<uint4> embedding_{std::vector<uint4>(kVocab)};
  std::vector<float4> x_{std::vector<float4>(2 * kHidden / 4)};
  OwnedStream stream_;
  std::optional<InputUpload> upload_;
};

TEST_F(StepInputs, TheHostIsAStepAhead) {
  StepShape shape = upload(1);
  for (TokenId token = 1; token < 20; ++token) {
    upload_->count_launch();
    const StepShape next = upload(token + 1);  // before the device has begun with this one
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

TEST_F(StepInputs, ALaunchThatFailedBehindItsEmbedTakesATurn) {
  for (TokenId token = 1; token < 30; token += 3) {
    run_embed(upload(token));
    const StepShape shape = upload(token + 1);
    upload_->count_launch();
    run_embed(shape);
    expect_input(shape, token + 1);
  }
  EXPECT_EQ(upload_->step(), step_);
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
