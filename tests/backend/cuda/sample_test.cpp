// Compares tokens chosen on the device with sample() on the host. Needs a GPU: not in ./test (docs/gpu.md).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "backend/cuda/input/row_input.h"
#include "backend/cuda/input/sample_input.h"
#include "backend/cuda/sample/args.h"
#include "backend/cuda/sample/sample_rows.h"
#include "backend/sample.h"
#include "core/numbers/random.h"
#include "tests/backend/cuda/pretended.h"

namespace nibble::cuda {
namespace {

constexpr float kNan{std::numeric_limits<float>::quiet_NaN()};
constexpr float kInfinity{std::numeric_limits<float>::infinity()};

using Tokens = std::vector<TokenId>;

class FixedMask : public TokenMask {
 public:
  explicit FixedMask(std::vector<uint32_t> words) : words_(std::move(words)) {}
  void fill(std::span<uint32_t> words) override {
    ASSERT_EQ(words.size(), words_.size());
    std::copy(words_.begin(), words_.end(), words.begin());
  }
  bool allows(size_t token) const { return has_token(words_, static_cast<TokenId>(token)); }

 private:
  std::vector<uint32_t> words_;
};

// A row of logits and the parameters for choosing its token.
struct Question {
  std::vector<float> logits;
  SampleParams params{};
  int position{0};
  Tokens prompt{}, output{};
  bool is_wanted{true};
  std::shared_ptr<FixedMask> mask{};
  // The host does not know the last token of the output: only the device's input has it.
  bool is_last_unknown{false};

  OutputRow row() const {
    return {.sample = is_wanted ? &params : nullptr, .prompt = prompt, .output = output, .mask = mask.get()};
  }
};

// A byte that, repeated, makes no valid token, count or number.
constexpr int kPoison{0xFF};

// Samples all questions in one launch, and checks that the logits are unchanged.
std::vector<SampledToken> ask_device(const std::vector<Question>& questions) {
  const OwnedStream stream;
  const auto count = questions.size(), vocab = questions[0].logits.size();
  std::vector<float> before;
  const PinnedBuffer host_rows(count * sizeof(SampleRow));
  SampleRows sample_rows(static_cast<int>(vocab));
  sample_rows.start(host_rows.as<SampleRow>());
  std::vector<RowInput> host_input;
  for (const Question& question : questions) {
    before.insert(before.end(), question.logits.begin(), question.logits.end());
    OutputRow row = question.row();
    if (question.is_last_unknown) {
      row.output = row.output.first(row.output.size() - 1);
      sample_rows.add(row, SamplePosition::at(question.position),
                      OptionalIndex::of(static_cast<int>(host_input.size())));
    } else {
      sample_rows.add(row, SamplePosition::at(question.position));
    }
    host_input.push_back({TokenInput::of(question.output.empty() ? 0 : question.output.back()), 0, 0, 0});
  }
  sample_rows.upload(stream);
  sample_rows.upload_masks(stream);
  const DeviceBuffer logits(before.size() * sizeof(float)), rows(host_rows.bytes()),
      results(count * sizeof(SampleResult)), best(count * kBestCtas * sizeof(uint64_t)),
      tickets(count * sizeof(unsigned)), input(count * sizeof(RowInput));
  const auto copy = [&](void* to, const void* from, size_t bytes) {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "copying");
  };
  copy(logits.as<void>(), before.data(), logits.bytes());
  copy(rows.as<void>(), host_rows.as<void>(), rows.bytes());
  copy(input.as<void>(), host_input.data(), input.bytes());
  check(cudaMemsetAsync(results.as<void>(), kPoison, results.bytes(), stream), "poisoning");
  check(cudaMemsetAsync(best.as<void>(), kPoison, best.bytes(), stream), "poisoning");
  check(cudaMemsetAsync(tickets.as<void>(), 0, tickets.bytes(), stream), "clearing tickets");
  prepare_sample();
  sample({stream, this_target()}, static_cast<int>(count),
         {rows.as<SampleRow>(), input.as<RowInput>(), logits.as<float>(), static_cast<int>(vocab),
          sample_rows.are_greedy(), best.as<uint64_t>(), tickets.as<unsigned>(), results.as<SampleResult>()});
  std::vector<SampleResult> answers(count);
  std::vector<float> after(before.size());
  copy(answers.data(), results.as<void>(), results.bytes());
  copy(after.data(), logits.as<void>(), logits.bytes());
  stream.wait();
  EXPECT_EQ(std::memcmp(after.data(), before.data(), logits.bytes()), 0);
  std::vector<SampledToken> sampled;
  for (const SampleResult& answer : answers) sampled.push_back(to_sampled(answer));
  return sampled;
}

SampledToken ask_host(const Question& question) {
  std::vector<float> scratch = question.logits;
  return nibble::sample(scratch, question.row(), question.position);
}

// Largest error of the device's sum of the weights of V tokens, as a share of the whole sum. A weight is
// 2^(c*x), with x = l - max and c = log2(e) / t. x, log2(e), the quotient and the product are each rounded by
// 2^-24. So the relative error of the weight is 4 |x / t| 2^-24. exp2f is off by 2 ulp (CUDA's programming
// guide), which is 4 * 2^-24. The mean of |x / t| over the weights is at most ln V: this mean and the
// logarithm of the weights' sum, which is not negative, add up to the entropy. Rounding to an integer adds
// 2^-45 for each token. The host rounds less: it needs no log2(e), and expf is off by 1 ulp.
double sum_tolerance(size_t vocab) {
  const auto v = static_cast<double>(vocab);
  return (4 * std::log(v) + 4) * 0x1p-24 + v * 0x1p-45;
}

// Returns the logits after steps 0 to 2 of backend/sample.h, computed in float32 as in sample.cpp.
std::vector<float> adjusted(const Question& question) {
  const SampleParams& p = question.params;
  std::vector<float> logits = question.logits;
  const auto order = [](float& l) {
    l = std::isnan(l) ? -kInfinity : std::min(l, std::numeric_limits<float>::max());
  };
  for (float& l : logits) order(l);
  for (size_t v = 0; question.mask && v < logits.size(); ++v)
    if (!question.mask->allows(v)) logits[v] = -kInfinity;
  for (const auto& [token, bias] : p.logit_bias) order(logits[token] += bias);
  std::vector<int> counts(logits.size());
  std::vector<bool> is_seen(logits.size());
  for (const TokenId token : question.prompt) is_seen[token] = true;
  for (const TokenId token : question.output) is_seen[token] = ++counts[token] > 0;
  for (size_t v = 0; v < logits.size(); ++v) {
    if (is_seen[v])
      order(logits[v] = logits[v] > 0 ? logits[v] / p.repetition_penalty : logits[v] * p.repetition_penalty);
    if (counts[v])
      order(logits[v] -= p.frequency_penalty * static_cast<float>(counts[v]) + p.presence_penalty);
  }
  return logits;
}

// Returns whether the draw may choose `token` if sums are off by `tolerance`. Computes in double.
bool may_be_drawn(const Question& question, TokenId token, double tolerance) {
  const SampleParams& p = question.params;
  const std::vector<float> logits = adjusted(question);
  const double largest = *std::max_element(logits.begin(), logits.end());
  const auto weight = [&](size_t v) { return std::exp((logits[v] - largest) / double{p.temperature}); };
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  const double unit = random_unit(p.seed, static_cast<uint64_t>(question.position));
  for (const double min_p_side : {-1, 0, 1}) {
    for (const double top_p_side : {-1, 0, 1}) {
      double min_p = p.min_p * (1 + min_p_side * tolerance), total = 0;
      std::vector<size_t> kept;
      for (const size_t v : order) {
        if (weight(v) < min_p || (p.top_k > 0 && kept.size() == static_cast<size_t>(p.top_k))) break;
        kept.push_back(v);
        total += weight(v);
      }
      if (p.top_p < 1) {
        const double goal = p.top_p * total * (1 + top_p_side * 2 * tolerance);
        size_t num_kept = 0;
        double sum = 0;
        while (num_kept < kept.size() && sum < goal) sum += weight(kept[num_kept++]);
        kept.resize(num_kept);
        total = sum;
      }
      std::sort(kept.begin(), kept.end());
      double before = 0;
      for (const size_t v : kept) {
        const double after = before + weight(v);
        // The running sum and the whole sum may each be off by `tolerance`.
        if (v == static_cast<size_t>(token) && before / total - 2 * tolerance <= unit &&
            unit < after / total + 2 * tolerance)
          return true;
        before = after;
      }
    }
  }
  return false;
}

// Returns how many tokens differ from the host's tokens. Rounding must explain each difference.
int compare_with_host(const std::vector<Question>& questions, const std::string& what) {
  const std::vector<SampledToken> device = ask_device(questions);
  int num_others = 0;
  for (size_t i = 0; i < questions.size(); ++i) {
    const Question& question = questions[i];
    const SampleParams& p = question.params;
    const SampledToken host = ask_host(question);
    const std::string where = fmt::format(
        "{}, row {} of {}: temperature {}, top_k {}, top_p {}, min_p {}, penalties {} {} {}, {} biases", what,
        i, questions.size(), p.temperature, p.top_k, p.top_p, p.min_p, p.repetition_penalty,
        p.presence_penalty, p.frequency_penalty, p.logit_bias.size());
    const double tolerance = sum_tolerance(question.logits.size());
    if (device[i].token != host.token) {
      ++num_others;
      EXPECT_GT(p.temperature, 0) << where;
      EXPECT_GE(device[i].token, 0) << where;
      EXPECT_TRUE(may_be_drawn(question, device[i].token, tolerance))
          << where << ": " << device[i].token << ", on the host " << host.token;
    }
    if (p.num_logprobs < 0) {
      EXPECT_EQ(device[i].logprob, 0) << where;
    } else if (device[i].token == host.token) {
      // Both logarithms of the sum may be off, and the results are rounded.
      const double allowed = 2 * tolerance + std::abs(double{host.logprob}) * 0x1p-23;
      EXPECT_NEAR(device[i].logprob, host.logprob, allowed) << where;
    }
    EXPECT_EQ(device[i].top.size(), host.top.size()) << where;
    for (size_t n = 0; n < std::min(device[i].top.size(), host.top.size()); ++n) {
      EXPECT_EQ(device[i].top[n].token, host.top[n].token) << where << ", likeliest " << n;
      const double wanted = host.top[n].logprob;
      if (std::isinf(wanted)) {
        EXPECT_EQ(device[i].top[n].logprob, wanted) << where << ", likeliest " << n;
      } else {
        EXPECT_NEAR(device[i].top[n].logprob, wanted, 2 * tolerance + std::abs(wanted) * 0x1p-23)
            << where << ", likeliest " << n;
      }
    }
  }
  return num_others;
}

class Dice {
 public:
  explicit Dice(uint64_t seed) : seed_(seed) {}
  double unit() { return random_unit(seed_, next_++); }
  int below(size_t bound) { return static_cast<int>(unit() * static_cast<double>(bound)); }
  template <typename T>
  T any_of(const std::vector<T>& values) {
    return values[static_cast<size_t>(below(values.size()))];
  }

 private:
  uint64_t seed_, next_{0};
};

// Returns roughly normal values with the given deviation. A few values are large, as in a model's logits.
std::vector<float> bell(size_t vocab, double deviation, Dice& dice) {
  std::vector<float> logits;
  for (size_t v = 0; v < vocab; ++v) {
    double sum = 0;
    for (int i = 0; i < 12; ++i) sum += dice.unit();
    logits.push_back(static_cast<float>((sum - 6) * deviation));
  }
  return logits;
}

struct Shape {
  const char* name;
  std::vector<float> (*make)(size_t vocab, Dice& dice);
};
const Shape kShapes[]{
    {"peaked", [](size_t vocab, Dice& dice) { return bell(vocab, 4, dice); }},
    {"flat", [](size_t vocab, Dice& dice) { return bell(vocab, 0.1, dice); }},
    {"far apart", [](size_t vocab, Dice& dice) { return bell(vocab, 1e4, dice); }},
    {"far from zero",
     [](size_t vocab, Dice& dice) {
       std::vector<float> logits = bell(vocab, 1, dice);
       for (float& l : logits) l += 1000;
       return logits;
     }},
    {"all equal", [](size_t vocab, Dice&) { return std::vector<float>(vocab, -1.5f); }},
    {"many ties",
     [](size_t vocab, Dice& dice) {
       std::vector<float> logits = bell(vocab, 2, dice);
       for (float& l : logits) l = std::round(2 * l) / 2;  // includes -0 and +0
       return logits;
     }},
    {"no numbers here and there",
     [](size_t vocab, Dice& dice) {
       std::vector<float> logits = bell(vocab, 3, dice);
       for (float& l : logits)
         if (dice.unit() < 0.3) l = dice.any_of<float>({kNan, -kInfinity, -3e38f, 1e-42f, 0.0f, -0.0f});
       return logits;
     }},
    {"infinite here and there",
     [](size_t vocab, Dice& dice) {
       std::vector<float> logits = bell(vocab, 3, dice);
       for (float& l : logits)
         if (dice.unit() < 0.01) l = dice.any_of<float>({kInfinity, 3.4028235e38f, 3e38f});
       return logits;
     }},
    {"no number at all",
     [](size_t vocab, Dice& dice) {
       std::vector<float> logits;
       for (size_t v = 0; v < vocab; ++v) logits.push_back(dice.any_of<float>({kNan, -kInfinity}));
       return logits;
     }},
    {"one number",
     [](size_t vocab, Dice& dice) {
       std::vector<float> logits(vocab, -kInfinity);
       logits[static_cast<size_t>(dice.below(vocab))] = -7;
       return logits;
     }},
};

// Returns random parameters. Each parameter has its neutral value in half of the rows.
Question random_question(size_t vocab, const std::vector<float>& logits, Dice& dice) {
  Question question{.logits = logits};
  SampleParams& p = question.params;
  const int v = static_cast<int>(vocab);
  const auto half = [&] { return dice.unit() < 0.5; };
  p.temperature = dice.any_of<float>({0, 0.1f, 0.7f, 1, 1, 2, 1e-6f, 3e38f});
  if (half()) p.top_k = std::max(1, dice.any_of<int>({1, 2, 7, 50, v / 2, v - 1, v, v + 1}));
  if (half()) p.top_p = dice.any_of<float>({1e-6f, 0.1f, 0.5f, 0.9f, 0.95f, 0.9999f});
  if (half()) p.min_p = dice.any_of<float>({0.001f, 0.05f, 0.5f, 1});
  if (half()) p.repetition_penalty = dice.any_of<float>({1.1f, 2, 0.5f});
  if (half()) p.presence_penalty = dice.any_of<float>({1, -0.5f});
  if (half()) p.frequency_penalty = dice.any_of<float>({0.3f, -0.1f});
  if (half())
    // Adds biases for different tokens.
    for (int i = 0; i < std::min(v, 5); ++i)
      p.logit_bias.push_back({(dice.below(2) + 2 * i) % v, dice.any_of<float>({-100, 2.5f, 100})});
  if (p.logit_bias.size() > 1 && vocab < 10) p.logit_bias.resize(1);
  if (half()) {
    std::vector<uint32_t> words(mask_words(v));
    const int share = dice.any_of<int>({1, 8, 31, 32});  // allowed tokens out of 32; some words allow none
    for (uint32_t& word : words)
      for (int bit = 0; bit < 32; ++bit) word |= static_cast<uint32_t>(dice.below(32) < share) << bit;
    question.mask = std::make_shared<FixedMask>(std::move(words));
  }
  if (half()) p.num_logprobs = dice.any_of<int>({0, 1, 5, kMaxLogprobs});
  p.seed = random_bits(17, static_cast<uint64_t>(dice.below(1 << 20)));
  question.position = dice.below(131072);
  const int num_prompt = dice.below(40), num_output = dice.below(3000);
  for (int i = 0; i < num_prompt; ++i) question.prompt.push_back(dice.below(vocab));
  // Makes low ids occur more often.
  for (int i = 0; i < num_output; ++i)
    question.output.push_back(static_cast<TokenId>(std::pow(dice.unit(), 3) * static_cast<double>(vocab)));
  return question;
}

class CudaSampleOfVocab : public testing::TestWithParam<size_t> {};

TEST_P(CudaSampleOfVocab, ChoosesLikeTheHostForAnyParameters) {
  const size_t vocab = GetParam();
  Dice dice(vocab);
  int num_asked = 0, num_others = 0;
  for (const Shape& shape : kShapes) {
    const std::vector<float> logits = shape.make(vocab, dice);
    for (const int num_rows : {1, 3, vocab < 100000 ? 40 : 6}) {
      std::vector<Question> questions;
      for (int i = 0; i < num_rows; ++i) questions.push_back(random_question(vocab, logits, dice));
      num_others += compare_with_host(questions, shape.name);
      num_asked += num_rows;
    }
  }
  fmt::print("V {}: {} of {} tokens are others than the host's\n", vocab, num_others, num_asked);
  // If 200,000 tokens share the probability, rounding moves the border between two tokens by a fraction of a
  // token, which changes a few hundredths of the draws.
  EXPECT_LE(num_others, num_asked / 50);
}
INSTANTIATE_TEST_SUITE_P(Vocab, CudaSampleOfVocab,
                         testing::Values(1, 2, 31, 97, 255, 2048, 32769, 201088, kMaxVocab),
                         testing::PrintToStringParamName());

TEST(CudaSampleParams, OneByOneChooseWhatTheHostDoes) {
  Dice dice(1);
  const std::vector<float> logits = bell(201088, 3, dice);
  std::vector<Question> questions;
  const auto ask = [&](const SampleParams& params) {
    for (int position = 0; position < 3; ++position)
      questions.push_back(
          {.logits = logits, .params = params, .position = position, .prompt = {5, 6}, .output = {7, 7}});
  };
  for (const float t : {0.0f, 0.3f, 1.0f, 1.5f, 1e-45f}) ask({.temperature = t});
  for (const int k : {1, 2, 3, 40, 255, 256, 257, 1000, 30000, 201087}) ask({.temperature = 2, .top_k = k});
  for (const float p : {1e-45f, 0.01f, 0.3f, 0.9f, 0.99f, 0.99999994f}) ask({.temperature = 1, .top_p = p});
  for (const float p : {1e-9f, 0.02f, 0.9f, 1.0f}) ask({.temperature = 1, .min_p = p});
  ask({.temperature = 1, .top_k = 100, .top_p = 0.8f, .min_p = 0.01f});
  for (int n = -1; n <= kMaxLogprobs; ++n) ask({.num_logprobs = n});
  EXPECT_LE(compare_with_host(questions, "one by one"), 2);
}

TEST(CudaSample, GivesNoTokenWhereNoneIsWanted) {
  Question question{.logits = {1, 2}};
  question.is_wanted = false;
  const SampledToken sampled = ask_device({question})[0];
  EXPECT_EQ(sampled.token, -1);
  EXPECT_EQ(sampled.logprob, 0);
  EXPECT_TRUE(sampled.top.empty());
}

TEST(CudaSample, TopKKeepsTheLowerIdsOfEqualTokens) {
  std::vector<Question> questions;
  for (int position = 0; position < 2000; ++position) {
    Question question{.logits = std::vector<float>(1000, 3.0f), .params = {.temperature = 1, .top_k = 10}};
    question.position = position;
    question.logits[700] = 3.5f;
    questions.push_back(question);
  }
  std::vector<int> counts(1000);
  for (const SampledToken& sampled : ask_device(questions)) ++counts[sampled.token];
  for (int v = 0; v < 1000; ++v) EXPECT_EQ(counts[v] > 0, v < 9 || v == 700) << v;
}

// Returns the bits of a token and of all its log-probabilities.
std::vector<uint32_t> bits(const std::vector<SampledToken>& sampled, size_t i) {
  std::vector<uint32_t> all{static_cast<uint32_t>(sampled[i].token)};
  const auto add = [&](float value) { std::memcpy(&all.emplace_back(), &value, sizeof value); };
  add(sampled[i].logprob);
  for (const TokenLogprob& top : sampled[i].top) {
    all.push_back(static_cast<uint32_t>(top.token));
    add(top.logprob);
  }
  return all;
}

// Penalties also count a token that the device has sampled and the host has not read yet. In this test, such
// a token's logit is also adjusted otherwise, or is not, or the token is the only one of the output.
TEST(CudaSample, CountsATokenThatOnlyTheDeviceKnowsLikeAnyOther) {
  Dice dice(4);
  const std::vector<float> logits = bell(201088, 2, dice);
  std::vector<Question> known;
  for (int i = 0; i < 60; ++i) {
    known.push_back(random_question(logits.size(), logits, dice));
    Question& question = known.back();
    question.params.frequency_penalty = 3;
    if (i % 3 == 0) question.output.clear();
    question.output.push_back(i % 4 == 0 ? 12345 : 1);  // 1 is often in the output already, 12345 rarely
    if (i % 5 == 0) question.prompt.push_back(question.output.back());
    if (i % 7 == 0) question.params.logit_bias.push_back({question.output.back(), 1.5f});
  }
  std::vector<Question> unknown = known;
  for (Question& question : unknown) question.is_last_unknown = true;
  const std::vector<SampledToken> expected = ask_device(known), actual = ask_device(unknown);
  for (size_t i = 0; i < known.size(); ++i) EXPECT_EQ(bits(actual, i), bits(expected, i)) << i;
  compare_with_host(unknown, "a token that only the device knows");
}

// The kernel adds up weights as integers, so the order of additions does not matter. On a GPU with clusters,
// a single row is divided among CTAs, but if there are 64 rows, each row has one CTA.
TEST(CudaSample, GivesARowTheSameBitsAloneInAnyCompanyAndEveryTime) {
  Dice dice(3);
  const std::vector<float> logits = bell(201088, 2, dice);
  std::vector<Question> questions;
  for (int i = 0; i < 64; ++i) questions.push_back(random_question(logits.size(), logits, dice));
  const std::vector<SampledToken> together = ask_device(questions), again = ask_device(questions);
  for (size_t i = 0; i < questions.size(); ++i) {
    EXPECT_EQ(bits(together, i), bits(again, i)) << i;
    EXPECT_EQ(bits(together, i), bits(ask_device({questions[i]}), 0)) << i;
  }
}

// Pearson's statistic with k degrees of freedom exceeds k + 2 sqrt(k x) + 2 x with a probability of at most
// e^-x (Laurent and Massart 2000): 1e-4 for x = 9.2. Draws are a function of (seed, position), so the counts
// are the same in every run.
TEST(CudaSample, DrawsComeAsOftenAsTheirShare) {
  struct Draws {
    const char* name;
    SampleParams params;
    // `weights` are for the logits log(1) .. log(8), computed by hand (tests/backend/sample_test.cpp).
    std::vector<double> weights;
  };
  std::vector<Draws> cases;
  const auto add = [&](const char* name, const SampleParams& params, const std::vector<double>& weights) {
    cases.push_back({name, params, weights});
  };
  add("temperature 1", {.temperature = 1}, {1, 2, 3, 4, 5, 6, 7, 8});
  add("temperature 0.5", {.temperature = 0.5f}, {1, 4, 9, 16, 25, 36, 49, 64});
  add("top_k 3", {.temperature = 1, .top_k = 3}, {0, 0, 0, 0, 0, 6, 7, 8});
  add("top_p 0.5", {.temperature = 1, .top_p = 0.5f}, {0, 0, 0, 0, 0, 6, 7, 8});
  add("min_p 0.55", {.temperature = 1, .min_p = 0.55f}, {0, 0, 0, 0, 5, 6, 7, 8});
  add("top_p after top_k", {.temperature = 1, .top_k = 4, .top_p = 0.7f}, {0, 0, 0, 0, 0, 6, 7, 8});
  add("bias", {.temperature = 0.5f, .logit_bias = {{0, std::log(8.0f)}}}, {64, 4, 9, 16, 25, 36, 49, 64});
  constexpr int kDraws{20000};
  Question question;
  for (int v = 1; v <= 8; ++v) question.logits.push_back(std::log(static_cast<float>(v)));
  for (const Draws& draws : cases) {
    std::vector<Question> questions;
    question.params = draws.params;
    // Half of the draws vary the position, the other half the seed.
    for (int i = 0; i < kDraws; ++i) {
      question.position = i % 2 ? i : 3;
      question.params.seed = i % 2 ? 5 : static_cast<uint64_t>(i);
      questions.push_back(question);
    }
    std::vector<int> counts(8);
    for (const SampledToken& sampled : ask_device(questions)) ++counts[sampled.token];
    const double sum = std::accumulate(draws.weights.begin(), draws.weights.end(), 0.0);
    double statistic = 0, degrees = -1;
    for (size_t v = 0; v < 8; ++v) {
      const double expected = draws.weights[v] / sum * kDraws;
      if (expected == 0) {
        EXPECT_EQ(counts[v], 0) << draws.name << ", token " << v;
        continue;
      }
      statistic += (counts[v] - expected) * (counts[v] - expected) / expected;
      ++degrees;
    }
    EXPECT_LT(statistic, degrees + 2 * std::sqrt(degrees * 9.2) + 2 * 9.2) << draws.name;
  }
}

}  // namespace
}  // namespace nibble::cuda
