// Checks of embed and sample, the first and the last operation of a step.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "backend/cuda/chip/target.h"
#include "backend/cuda/dense/args.h"
#include "backend/cuda/input/row_input.h"
#include "backend/cuda/input/sample_input.h"
#include "backend/cuda/input/step_exchange.h"
#include "backend/cuda/sample/args.h"
#include "backend/cuda/sample/sample_rows.h"
#include "backend/cuda/verify/checks.h"
#include "backend/cuda/verify/device_array.h"
#include "backend/cuda/verify/matrix.h"
#include "backend/cuda/verify/shapes.h"
#include "core/numbers/random.h"

namespace nibble::cuda::verify {
namespace {

constexpr int kLogprobs{3};

// Two poisoned host buffers that steps use in turn. A kernel may touch only the buffer of its own step.
template <typename T>
class PlacesInTurn {
 public:
  PlacesInTurn(uint32_t step, size_t bytes) : step_(step), places_{PinnedBuffer(bytes), PinnedBuffer(bytes)} {
    for (const PinnedBuffer& place : places_) std::memset(place.as<void>(), kPoison, place.bytes());
  }
  void tell(T* (&turns)[2]) const {
    for (size_t i = 0; i < 2; ++i) turns[i] = places_[i].template as<T>();
  }
  T* now() const { return places_[step_ % 2].template as<T>(); }
  T* other() const { return places_[(step_ + 1) % 2].template as<T>(); }
  // Checks that the kernel wrote nothing into the other step's buffer, and nothing after the first `from`
  // bytes of this step's buffer: all of these bytes must still be poison.
  void expect_poison(Comparison& comparison, const char* what, size_t from) const {
    const auto* const own = reinterpret_cast<const uint8_t*>(now());
    const auto* const left_alone = reinterpret_cast<const uint8_t*>(other());
    for (size_t i = 0; i < places_[0].bytes(); ++i) {
      comparison.equal(what, -2, i, left_alone[i], kPoison);
      if (i >= from) comparison.equal(what, -1, i, own[i], kPoison);
    }
  }

 private:
  static constexpr int kPoison{0xFF};
  uint32_t step_;
  PinnedBuffer places_[2];
};

// Returns a step number, even or odd, so that cases use either of the two buffers.
uint32_t step_of(const Case& c) { return static_cast<uint32_t>(41 + c.seed / 100 % 2); }

// Returns the number of bytes that follow the rows in the step's input: 20,004 for each of the first 4 rows,
// plus 0 to 3 words of 4 bytes that depend on the seed. In steps of up to 4 rows, the threads of embed need
// two iterations to copy that many bytes. The number is a multiple of 4, but often not of 16.
size_t rest_bytes(const Case& c) { return size_t{20'004} * std::min(c.num_tokens, 4) + 4 * (c.seed % 4); }

constexpr TokenInput kOtherToken = TokenInput::of(3);  // token of another step, which must not be read

// A step's rows and their tokens. Some tokens are results of the previous step.
struct EmbedRows {
  std::vector<RowInput> rows;
  std::vector<SampleResult> results;
  std::vector<size_t> tokens;
};

EmbedRows embed_rows(const Case& c) {
  const size_t T = c.num_tokens, vocab = c.shape.vocab;
  std::vector<RowInput> rows;
  std::vector<SampleResult> results(T);
  std::vector<size_t> tokens;
  for (size_t t = 0; t < T; ++t) {
    tokens.push_back(t == 0 ? vocab - 1
                            : random_bits(c.seed + 1, t) % vocab);  // row 0 has the vocabulary's last token
    const auto token = static_cast<int32_t>(tokens.back());
    const auto chosen_as = static_cast<int>(results.size() - 1 - t);  // output row that sampled the token
    results[chosen_as].token = token;
    const auto t32 = static_cast<uint32_t>(t);
    rows.push_back({t % 3 == 1 ? TokenInput::of_output_row(chosen_as) : TokenInput::of(token),
                    static_cast<int32_t>(t) + 1, t32 + 1000, t32 + 2000});
  }
  return {rows, results, tokens};
}

// The inputs of two steps in host memory: this step's rows and the bytes after them, and the rows of another
// step, which embed must not read.
class HostInputs {
 public:
  HostInputs(const Case& c, const std::vector<RowInput>& rows)
      : seed_(c.seed),
        row_bytes_(rows.size() * sizeof(RowInput)),
        num_bytes_(row_bytes_ + rest_bytes(c)),
        places_(step_of(c), sizeof(InputHeader) + room()) {
    places_.now()->num_bytes = static_cast<uint32_t>(num_bytes_);
    auto* const host_input = reinterpret_cast<uint8_t*>(places_.now() + 1);
    std::memcpy(host_input, rows.data(), row_bytes_);
    for (size_t i = row_bytes_; i < num_bytes_; ++i) host_input[i] = byte_of_rest(i);
    places_.other()->num_bytes = static_cast<uint32_t>(row_bytes_);
    std::fill_n(reinterpret_cast<RowInput*>(places_.other() + 1), rows.size(),
                RowInput{kOtherToken, 7, 7, 7});
  }

  void tell(InputHeader* (&turns)[2]) const { places_.tell(turns); }
  size_t room() const { return (num_bytes_ + 15) / 16 * 16; }
  // Checks that embed copied the bytes after the rows unchanged.
  void check_rest(Comparison& comparison, const std::vector<uint8_t>& copied) const {
    for (size_t i = row_bytes_; i < num_bytes_; ++i)
      comparison.equal("rest", 0, i, copied[i], byte_of_rest(i));
  }

 private:
  uint8_t byte_of_rest(size_t i) const { return static_cast<uint8_t>(random_bits(seed_ + 2, i)); }

  uint64_t seed_;
  size_t row_bytes_, num_bytes_;
  PlacesInTurn<InputHeader> places_;
};

void check_told(Comparison& comparison, const PlacesInTurn<StepOutput>& outputs, uint32_t number) {
  const StepOutput& output = *outputs.now();
  comparison.equal("step for the host", 0, 0, output.step, number);
  comparison.equal("begin", 0, 0, output.begin_ns > 0 && output.begin_ns != ~0ull, true);
  comparison.equal("meeting", 0, 0, static_cast<double>(output.met_ns), 0);
  outputs.expect_poison(comparison, "output", sizeof(StepOutput));
}

// Compares the rows that embed has copied to GPU memory with the expected rows. Where the host does not know
// a token, embed must have filled in the token that the previous step chose.
void check_rows(Comparison& comparison, const EmbedRows& step_rows, const std::vector<uint8_t>& input_after) {
  const auto& [rows, results, tokens] = step_rows;
  for (size_t t = 0; t < rows.size(); ++t) {
    RowInput row;
    std::memcpy(&row, &input_after[t * sizeof row], sizeof row);
    comparison.equal("token", t, 0, row.token.bits, static_cast<uint32_t>(tokens[t]));
    comparison.equal("position", t, 0, row.position, rows[t].position);
    comparison.equal("full pages", t, 0, row.full_pages, rows[t].full_pages);
    comparison.equal("sliding pages", t, 0, row.sliding_pages, rows[t].sliding_pages);
  }
}

// Returns the greedy choice: never a token with a logit of NaN or -infinity; ties go to the lower token.
int likeliest(const float* logits, size_t vocab) {
  int best = -1;
  for (size_t i = 0; i < vocab; ++i)
    if (logits[i] > -INFINITY && (best < 0 || logits[i] > logits[best])) best = static_cast<int>(i);
  return best;
}

// Overwrites rows with special logits, by row number modulo 8. 1: all NaN. 2: all -infinity. 3: some NaN. 4:
// all equal (zeros of both signs). 5: all negative. 6: two are infinite. 7: one is huge. Other rows stay
// unchanged.
void disturb(std::vector<float>& logits, size_t vocab) {
  constexpr float kNan{std::numeric_limits<float>::quiet_NaN()};
  const size_t num_rows = logits.size() / vocab;
  for (size_t row = 0; row < num_rows; ++row) {
    float* of_row = logits.data() + row * vocab;
    for (size_t i = 0; i < vocab; ++i) {
      if (row % 8 == 1) of_row[i] = kNan;
      if (row % 8 == 2) of_row[i] = -INFINITY;
      if (row % 8 == 3 && i % 3 == 0) of_row[i] = kNan;
      if (row % 8 == 4) of_row[i] = i % 2 ? 0.0f : -0.0f;
      if (row % 8 == 5) of_row[i] = -std::abs(of_row[i]) - 1;
    }
    if (row % 8 == 6) of_row[vocab - 1] = of_row[vocab / 2] = INFINITY;
    if (row % 8 == 7) of_row[vocab - 1] = 1e30f;
  }
}

// Checks the reported log-probabilities. The error bound is the sum of three errors: one rounding of the
// logit minus the largest logit; a relative error of (4 ln V + 4) 2^-24 of the sum of exponentials (derived
// in tests/backend/cuda/sample_test.cpp); and 2 ulp of this sum's logarithm.
void check_logprobs(Comparison& comparison, ptrdiff_t row, const float* logits, size_t vocab,
                    const SampleResult& result) {
  std::vector<int> order = numbers_below(static_cast<int>(vocab));
  std::ranges::stable_sort(order, std::greater(), [&](int v) { return logits[v]; });
  double sum = 0;
  for (size_t v = 0; v < vocab; ++v) sum += std::exp(double{logits[v]} - double{logits[order[0]]});
  const double log_sum = std::log(sum), bound = (4 * std::log(static_cast<double>(vocab)) + 4) * 0x1p-24;
  const auto expected = [&](size_t v) { return double{logits[v]} - double{logits[order[0]]} - log_sum; };
  const auto near = [&](ptrdiff_t column, float actual, size_t v) {
    comparison.near({"logprob", row, column}, actual, expected(v),
                    bound + 0x1p-21 * (std::abs(expected(v)) + log_sum));
  };
  near(-1, result.logprob, order[0]);
  comparison.equal("number of logprobs", row, 0, result.num_top,
                   static_cast<double>(std::min<size_t>(kLogprobs, vocab)));
  for (int i = 0; i < std::min(result.num_top, kLogprobs); ++i) {
    comparison.equal("token of a logprob", row, i, result.top[i].token, order[i]);
    near(i, result.top[i].logprob, order[i]);
  }
}

class EvenTokens : public TokenMask {
 public:
  void fill(std::span<uint32_t> words) override { std::ranges::fill(words, 0x55555555u); }
};

// Rows from which tokens are sampled: greedy rows, rows with log-probabilities or masks, and rows with
// top_k = 1, for which sampling must return the likeliest token. In every second case all rows are greedy,
// because such steps have their own kernel. tests/backend/cuda/sample_test.cpp tests sampling among several
// tokens.
class TestSampling {
 public:
  TestSampling(const Case& c, Stream stream)
      : num_rows_(c.num_tokens),
        vocab_(c.shape.vocab),
        are_greedy_(c.seed / 100 % 2),
        logits_(random_floats(c.values, c.seed, num_rows_ * vocab_)),
        params_(num_rows_),
        rows_(num_rows_),
        sample_rows_(c.shape.vocab) {
    disturb(logits_, vocab_);
    sample_rows_.start(rows_.data());
    for (size_t row = 0; row < num_rows_; ++row) {
      SampleParams& params = params_[row];
      if (is_plain(row) && row / 8 % 3 == 0) params.num_logprobs = kLogprobs;
      if (is_plain(row) && row / 8 % 3 == 1) params.temperature = 1;
      params.top_k = params.temperature > 0 ? 1 : 0;
      sample_rows_.add({.sample = &params, .mask = is_masked(row) ? &even_ : nullptr},
                       SamplePosition::at(static_cast<int>(row)));
    }
    sample_rows_.upload(stream);
    sample_rows_.upload_masks(stream);
  }

  size_t num_rows() const { return num_rows_; }
  const std::vector<float>& logits() const { return logits_; }
  const std::vector<SampleRow>& rows() const { return rows_; }
  bool are_greedy() const { return sample_rows_.are_greedy(); }

  void check_greedy(Comparison& comparison) const {
    comparison.equal("only greedy rows", -1, 0, are_greedy(), are_greedy_);
  }
  void check_result(Comparison& comparison, size_t row, const SampleResult& result) const {
    const float* of_row = logits_.data() + row * vocab_;
    std::vector<float> allowed(of_row, of_row + vocab_);
    for (size_t v = 1; is_masked(row) && v < vocab_; v += 2) allowed[v] = -INFINITY;
    comparison.equal("token", row, 0, result.token, likeliest(allowed.data(), vocab_));
    if (params_[row].num_logprobs >= 0) {
      check_logprobs(comparison, row, of_row, vocab_, result);
    } else {
      comparison.equal("number of logprobs", row, 0, result.num_top, 0);
      comparison.equal("logprob", row, 0, result.logprob, 0);
    }
  }

 private:
  // Returns whether disturb() leaves the row unchanged.
  bool is_plain(size_t row) const { return !are_greedy_ && row % 8 == 0; }
  bool is_masked(size_t row) const { return is_plain(row) && row / 8 % 3 == 2; }

  size_t num_rows_, vocab_;
  bool are_greedy_;
  std::vector<float> logits_;
  std::vector<SampleParams> params_;
  std::vector<SampleRow> rows_;
  SampleRows sample_rows_;
  EvenTokens even_;
};

}  // namespace

void check_embed(Comparison& comparison, const Subject& subject, const Case& c) {
  const size_t T = c.num_tokens, H = c.shape.hidden;
  const auto embedding = random_bf16(c.values, c.seed, c.shape.vocab * H);
  const EmbedRows step_rows = embed_rows(c);
  const HostInputs inputs(c, step_rows.rows);
  const uint32_t number = step_of(c);
  const PlacesInTurn<StepOutput> outputs(number, 2 * sizeof(StepOutput));
  const DeviceArray<uint8_t> input(inputs.room());
  const DeviceArray<uint16_t> device_embedding(embedding);
  const DeviceArray<SampleResult> device_results(step_rows.results);
  const DeviceArray<float> x(T * H);
  const DeviceArray<uint32_t> step(std::vector<uint32_t>{number - 1});
  const DeviceArray<unsigned> ticket(std::vector<unsigned>{0});
  EmbedArgs args{};
  inputs.tell(args.exchange.inputs);
  outputs.tell(args.exchange.outputs);
  args.input = input.data();
  args.embedding = bf16(device_embedding);
  args.hidden = c.shape.hidden;
  args.x = x.data();
  args.step = step.data();
  args.ticket = ticket.data();
  args.last_results = device_results.data();
  subject.run("checking embed", c.num_tokens, args);

  comparison.equal("step", 0, 0, step.read(comparison, "step")[0], number);
  comparison.equal("ticket", 0, 0, ticket.read(comparison, "ticket")[0], 0);
  check_told(comparison, outputs, number);
  const auto actual = x.read(comparison, "x");
  for (size_t t = 0; t < T; ++t)
    for (size_t i = 0; i < H; ++i)
      comparison.equal("x", t, i, actual[t * H + i], float_of(embedding[step_rows.tokens[t] * H + i]));
  const auto input_after = input.read(comparison, "input");
  check_rows(comparison, step_rows, input_after);
  inputs.check_rest(comparison, input_after);
}

void check_sample(Comparison& comparison, const Subject& subject, const Case& c) {
  const TestSampling test(c, subject.stream());
  const size_t num_rows = test.num_rows();
  const DeviceArray<SampleRow> device_rows(test.rows());
  const DeviceArray<float> device_logits(test.logits());
  const DeviceArray<SampleResult> results(num_rows);
  const DeviceArray<uint64_t> best(num_rows * kBestCtas);
  const DeviceArray<unsigned> tickets(std::vector<unsigned>(num_rows, 0));
  // sample also stores results in host memory. The first output row of this launch is kFirstOutput.
  constexpr size_t kFirstOutput{5};
  const uint32_t number = step_of(c);
  const DeviceArray<uint32_t> step(std::vector<uint32_t>{number});
  const size_t told_bytes = sizeof(StepOutput) + (kFirstOutput + num_rows) * sizeof(RowOutput);
  const PlacesInTurn<StepOutput> outputs(number, told_bytes + sizeof(RowOutput));
  SampleArgs args{device_rows.data(), nullptr,        device_logits.data(), c.shape.vocab, test.are_greedy(),
                  best.data(),        tickets.data(), results.data(),       step.data()};
  outputs.tell(args.exchange.outputs);
  args.first_output = kFirstOutput;
  subject.run("checking sample", c.num_tokens, args);
  test.check_greedy(comparison);
  outputs.expect_poison(comparison, "outputs", told_bytes);
  const auto* const all_told = reinterpret_cast<const RowOutput*>(outputs.now() + 1);
  for (const auto* byte = reinterpret_cast<const uint8_t*>(outputs.now());
       byte < reinterpret_cast<const uint8_t*>(all_told + kFirstOutput); ++byte)
    comparison.equal("outputs before", -1, 0, *byte, 0xFF);

  const auto actual = results.read(comparison, "results");
  const auto tickets_left = tickets.read(comparison, "tickets");
  for (size_t row = 0; row < num_rows; ++row) {
    comparison.equal("tickets", row, 0, tickets_left[row], 0);
    const RowOutput& told = all_told[kFirstOutput + row];
    comparison.equal("end", row, 0, told.end_ns > 0 && told.end_ns != ~0ull, true);
    for (const SampleResult* result : {&actual[row], &told.result})
      test.check_result(comparison, row, *result);
  }
}

}  // namespace nibble::cuda::verify
