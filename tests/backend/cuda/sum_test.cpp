// Tests only the all-reduces of ranks, without a model. On one GPU the ranks take turns. With enough GPUs,
// the tests also run with one GPU per rank. Needs a GPU (docs/gpu.md); ./test runs some of these tests on an
// emulated GPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "backend/cuda/dense/args.h"
#include "backend/cuda/kernel_table.h"
#include "backend/cuda/layout/activations.h"
#include "backend/cuda/pipeline/row_limits.h"
#include "backend/cuda/prepare.h"
#include "backend/cuda/ranks/cards.h"
#include "backend/cuda/ranks/inbox.h"
#include "core/numbers/random.h"
#include "tests/backend/cuda/gpus_of_ranks.h"
#include "tests/backend/cuda/pretended.h"

namespace nibble::cuda {
namespace {

// kMostSummed: most rows of a sum in these tests. kCountsOfRanks: numbers of ranks that share a sum.
#ifdef NIBBLE_EMULATED_GPU
constexpr int kMostSummed{300};
constexpr int kCountsOfRanks[]{2, 3, 8};
#else
constexpr int kMostSummed{kSumRows};
constexpr int kCountsOfRanks[]{2, 3, 4, 8};
#endif

// Tests the all-reduce of ranks. Each sum replaces the rows of x from kFirstRow on.
class SumTest : public testing::Test {
 protected:
  static constexpr int kHidden{352}, kParts{4}, kFirstRow{3}, kStepRows{kFirstRow + kMostSummed};
  static constexpr float kEps{1e-5f};

  struct TestRank {
    TestRank(int number, int num_ranks, const Config& config)
        : inbox(config, num_ranks, kMostSummed, stream), rank(number) {
      fill_on_device(step.as<void>(), 0, sizeof(uint32_t), "testing sums");
      std::vector<float> weights;
      for (int i = 0; i < kHidden; ++i) weights.push_back(1 + 0.01f * static_cast<float>(i % 17));
      copy_to_device(norm_weights.as<void>(), weights.data(), norm_weights.bytes(), "testing sums");
    }
    SumOutputs outputs() const { return {x.as<float>(), normed.as<__nv_bfloat16>()}; }

    OwnedStream stream;
    DeviceBuffer step{sizeof(uint32_t)};
    DeviceBuffer parts{size_t{kParts} * kStepRows * kHidden * sizeof(float)},
        x{size_t{kStepRows} * kHidden * sizeof(float)}, normed{normed_bytes()},
        norm_weights{kHidden * sizeof(float)}, part_weights{size_t{kParts} * kStepRows * sizeof(float)};
    OwnedInbox inbox;
    int rank;
    Links links;
  };
  static int image_rows() { return whole_eights(kStepRows); }
  static size_t normed_bytes() { return image_bytes(image_rows(), kHidden); }

  void make_ranks(const std::vector<int>& gpus) {
    Config config;
    config.hidden = kHidden;
    config.num_layers = 1;
    devices_ = gpus;
    const auto num_ranks = static_cast<int>(gpus.size());
    if (gpus.back() != 0) connect(gpus);
    for (const int gpu : gpus) {
      use_device(gpu);
      ranks_.push_back(std::make_unique<TestRank>(static_cast<int>(ranks_.size()), num_ranks, config));
      prepare_kernels();
    }
    for (const auto& rank : ranks_) {
      rank->links.rank = rank->rank;
      rank->links.num_ranks = num_ranks;
      rank->links.hidden = kHidden;
      rank->links.own_room = own_room(num_ranks, kMostSummed);
      rank->links.step = rank->step.as<uint32_t>();
      rank->links.tags_per_step = 100;
      rank->links.failure = failure_.data();
      rank->links.patience_ns = 2'000'000'000;
      for (size_t r = 0; r < ranks_.size(); ++r) {
        rank->links.inboxes[r] = *ranks_[r]->inbox;
        rank->links.outputs[r] = ranks_[r]->outputs();
      }
    }
  }

  static float term(int rank, int part, size_t place, int seed) {
    const uint64_t bits = random_bits(static_cast<uint64_t>(100 * seed + 10 * rank + part), place);
    return static_cast<float>(static_cast<int>(bits % 2000001) - 1000000) * 1.7e-5f;
  }

  // Returns whether a part has weight 0. That is so for one part in three. In every third row it is also so
  // for all parts of rank 1.
  static bool is_left_out(int rank, int part, int row) {
    return (row + part + 2 * rank) % 3 == 0 || (rank == 1 && row % 3 == 0);
  }
  // Fills in the terms of a sum of `num_rows` rows. Parts have the layout that experts_down() writes.
  void put_terms(int num_rows, int seed) {
    const size_t num_floats = static_cast<size_t>(num_rows) * kHidden, first = size_t{kFirstRow} * kHidden;
    std::vector<float> x;
    for (size_t i = 0; i < num_floats; ++i) x.push_back(term(9, 9, i, seed));
    for (size_t r = 0; r < ranks_.size(); ++r) {
      use_device(devices_[r]);
      std::vector<float> parts;
      for (int row = 0; row < num_rows; ++row)
        for (int part = 0; part < kParts; ++part)
          for (int i = 0; i < kHidden; ++i)
            parts.push_back(term(static_cast<int>(r), part, static_cast<size_t>(row * kHidden + i), seed));
      copy_to_device(ranks_[r]->parts.as<float>() + kParts * first, parts.data(),
                     parts.size() * sizeof(float), "testing sums");
      copy_to_device(ranks_[r]->x.as<float>() + first, x.data(), x.size() * sizeof(float), "testing sums");
      std::vector<float> weights(size_t{kParts} * kFirstRow);
      for (int row = 0; row < num_rows; ++row)
        for (int part = 0; part < kParts; ++part)
          weights.push_back(is_left_out(static_cast<int>(r), part, row) ? 0 : 0.25f);
      copy_to_device(ranks_[r]->part_weights.as<void>(), weights.data(), weights.size() * sizeof(float),
                     "testing sums");
      fill_on_device(ranks_[r]->normed.as<void>(), 0, normed_bytes(), "testing sums");
    }
  }
  // Returns x after `times` sums.
  std::vector<float> expected_sums(int num_rows, int seed, int times = 1, bool leaves_out = false) const {
    std::vector<float> sums;
    for (size_t i = 0; i < static_cast<size_t>(num_rows * kHidden); ++i) {
      float own[kMaxRanks], sum = term(9, 9, i, seed);
      for (size_t r = 0; r < ranks_.size(); ++r) {
        const auto rank = static_cast<int>(r), row = static_cast<int>(i) / kHidden;
        const auto term_of = [&](int part) {
          return leaves_out && is_left_out(rank, part, row) ? 0 : term(rank, part, i, seed);
        };
        own[r] = term_of(0);
        for (int part = 1; part < kParts; ++part) own[r] += term_of(part);
      }
      for (int time = 0; time < times; ++time)
        for (size_t r = 0; r < ranks_.size(); ++r) sum += own[r];
      sums.push_back(sum);
    }
    return sums;
  }
  template <typename T>
  std::vector<T> copied(size_t r, const T* from, size_t count) const {
    use_device(devices_[r]);
    std::vector<T> values(count);
    ranks_[r]->stream.wait();
    check(cudaMemcpy(values.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost), "testing sums");
    return values;
  }
  // Returns the sums of a rank. Where only the owner of a row needs its sum, the rows of other owners are set
  // to 0, here and in `expected`.
  std::vector<float> sums_of(size_t r, int num_rows, bool has_norm, std::vector<float>& expected) const {
    std::vector<float> sums = copied(r, ranks_[r]->x.as<float>() + size_t{kFirstRow} * kHidden,
                                     static_cast<size_t>(num_rows) * kHidden);
    const auto num_ranks = static_cast<int>(ranks_.size());
    if (has_norm && num_rows > tagged_rows(num_ranks))
      for (int row = 0; row < num_rows; ++row)
        if (owner_of(row, num_ranks) != static_cast<int>(r))
          for (int i = 0; i < kHidden; ++i)
            sums[static_cast<size_t>(row * kHidden + i)] = expected[static_cast<size_t>(row * kHidden + i)] =
                0;
    return sums;
  }
  std::vector<uint16_t> normed_by(size_t r) const {
    return copied(r, ranks_[r]->normed.as<uint16_t>(), normed_bytes() / 2);
  }
  // Returns the output of rms_norm() for these sums.
  std::vector<uint16_t> expected_norms(const std::vector<float>& sums, int norm_image_rows) const {
    use_device(devices_[0]);
    const TestRank& rank = *ranks_[0];
    const auto num_rows = static_cast<int>(sums.size() / kHidden);
    std::vector<float> padded(size_t{kFirstRow} * kHidden);  // the norms of rows of zeros are zeros
    padded.insert(padded.end(), sums.begin(), sums.end());
    const DeviceBuffer x(padded.size() * sizeof(float)), normed(normed_bytes());
    copy_to_device(x.as<void>(), padded.data(), x.bytes(), "testing sums");
    fill_on_device(normed.as<void>(), 0, normed.bytes(), "testing sums");
    RmsNormArgs args{};
    args.norm.residual.x = x.as<float>();
    args.norm.residual.hidden = kHidden;
    args.norm.weights = rank.norm_weights.as<float>();
    args.norm.eps = kEps;
    args.num_tokens = kFirstRow + num_rows;
    args.normed = normed.as<__nv_bfloat16>();
    if (norm_image_rows) args.normed = Activations::image(normed.as<__nv_bfloat16>(), norm_image_rows);
    rms_norm({Stream(rank.stream), this_target()}, args);
    return copied(0, normed.as<uint16_t>(), normed_bytes() / 2);
  }
  struct Kind {
    bool has_norm{true};
    int image_rows{0};
    bool leaves_out{false};  // whether the sum leaves out parts of weight 0
  };
  void launch_sum(size_t r, int number, int num_rows, const Kind& kind, Turn turn) const {
    use_device(devices_[r]);
    const TestRank& rank = *ranks_[r];
    const Stream stream = rank.stream;
    sum_over_ranks({stream, this_target()},
                   {rank.links,
                    Operation::kExpertsDown,
                    number,
                    number % kInboxSlots,
                    kFirstRow,
                    num_rows,
                    {rank.parts.as<float>(),
                     kParts,
                     kHidden,
                     size_t{kParts} * kHidden,
                     rank.x.as<float>(),
                     rank.x.as<float>(),
                     {kind.has_norm ? rank.norm_weights.as<float>() : nullptr, kEps, kind.image_rows},
                     kind.leaves_out ? rank.part_weights.as<float>() : nullptr}},
                   turn);
  }

  std::vector<int> devices_;
  FailureFlag failure_;
  std::vector<std::unique_ptr<TestRank>> ranks_;
};

// For every way in which numbers are sent, the sums equal the sums of a loop over the ranks, and the norms
// equal the norms of rms_norm().
TEST_F(SumTest, HasTheSameBitsOnEveryRankInTheOrderOfRanks) {
  for (const int num_ranks : kCountsOfRanks) {
    ranks_.clear();
    make_ranks(one_gpu(num_ranks));
    const int most_words = tagged_rows(num_ranks);
    int number = 1;
    for (const int num_rows :
         {1, 2, 3, 16, 17, most_words - 1, most_words, most_words + 1, 299, 300, 2048, 8192}) {
      if (num_rows > kMostSummed) continue;
      // Ranks with whole experts leave out the (token, expert) pairs of other ranks, possibly all pairs.
      for (const Kind kind : {Kind{false, 0}, Kind{true, 0}, Kind{true, image_rows()}, Kind{false, 0, true},
                              Kind{true, image_rows(), true}}) {
        put_terms(num_rows, number);
        for (size_t r = 0; r < ranks_.size(); ++r) launch_sum(r, number, num_rows, kind, Turn::kSend);
        for (size_t r = 0; r < ranks_.size(); ++r) ranks_[r]->stream.wait();
        for (size_t r = 0; r < ranks_.size(); ++r) launch_sum(r, number, num_rows, kind, Turn::kWait);
        for (size_t r = 0; r < ranks_.size(); ++r) ranks_[r]->stream.wait();
        const std::vector<float> all = expected_sums(num_rows, number, 1, kind.leaves_out);
        const std::vector<uint16_t> norms =
            kind.has_norm ? expected_norms(all, kind.image_rows) : std::vector<uint16_t>();
        for (size_t r = 0; r < ranks_.size(); ++r) {
          std::vector<float> expected = all;
          const std::vector<float> sums = sums_of(r, num_rows, kind.has_norm, expected);
          ASSERT_EQ(sums == expected, true) << num_rows << " rows, rank " << r << " of " << num_ranks;
          if (kind.has_norm) {
            ASSERT_EQ(normed_by(r) == norms, true) << num_rows << " rows, rank " << r << " of " << num_ranks;
          }
        }
        ++number;
      }
    }
    EXPECT_FALSE(failure_.take());
  }
}

TEST_F(SumTest, IsGivenUpWhereARankDoesNotCome) {
  make_ranks(one_gpu(2));
  for (const auto& rank : ranks_) rank->links.patience_ns = 50'000'000;
  for (const int num_rows : {1, 64, 300})
    for (const Kind kind : {Kind{false, 0}, Kind{true, 0}}) {
      put_terms(num_rows, 1);
      launch_sum(0, 1, num_rows, kind, Turn::kSendAndWait);
      ranks_[0]->stream.wait();
      EXPECT_TRUE(failure_.take()) << num_rows;
      EXPECT_FALSE(failure_.take());
    }
}

// Runs up to a hundred thousand sums per number of rows, with random delays before some launches of a rank.
TEST_F(SumTest, ComesOutRightWhicheverGpuIsLate) {
  if (num_gpus() < 2) GTEST_SKIP() << "this machine has one GPU";
  make_ranks({0, 1});
  constexpr int kSums{500};
  for (const int num_rows : {1, 8, 40, 300}) {
    const Kind kind{num_rows > kOwnNorms, image_rows()};
    const int num_rounds = num_rows == 300 ? 10 : num_rows == 40 ? 50 : 200;
    put_terms(num_rows, num_rows);
    std::vector<std::thread> hosts;
    for (size_t r = 0; r < 2; ++r)
      hosts.emplace_back([&, r] {
        uint32_t step = 1;
        for (int round = 0; round < num_rounds; ++round) {
          const uint64_t random = random_bits(r + 7, static_cast<uint64_t>(round));
          if (random % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random / 8 % 2000));
          use_device(devices_[r]);
          for (int n = 0; n < kSums; ++n) {
            if (n % 100 == 0) {
              check(cudaMemcpyAsync(ranks_[r]->step.as<void>(), &step, sizeof step, cudaMemcpyHostToDevice,
                                    ranks_[r]->stream),
                    "testing sums");
              ranks_[r]->stream.wait();
              ++step;
            }
            launch_sum(r, n % 100, num_rows, kind, Turn::kSendAndWait);
          }
        }
        ranks_[r]->stream.wait();
      });
    for (std::thread& host : hosts) host.join();
    ASSERT_FALSE(failure_.take());
    const std::vector<float> all = expected_sums(num_rows, num_rows, num_rounds * kSums);
    for (size_t r = 0; r < 2; ++r) {
      std::vector<float> expected = all;
      const std::vector<float> sums = sums_of(r, num_rows, kind.has_norm, expected);
      EXPECT_EQ(sums == expected, true) << num_rows << " rows, rank " << r;
      if (kind.has_norm) {
        EXPECT_EQ(normed_by(r) == expected_norms(all, kind.image_rows), true)
            << num_rows << " rows, rank " << r;
      }
    }
    // Changes the tags, so that no sum of the next number of rows has the tag of a sum of this number of
    // rows.
    for (const auto& rank : ranks_) {
      rank->links.tags_per_step += 1'000'000;
    }
  }
}

}  // namespace
}  // namespace nibble::cuda
