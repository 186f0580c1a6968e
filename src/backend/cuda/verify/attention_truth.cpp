#include "backend/cuda/verify/attention_truth.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "backend/cuda/verify/host_threads.h"
#include "backend/draft_tree.h"

namespace nibble::cuda::verify {
namespace {

constexpr double kLog2E{1.4426950408889634};
constexpr double kUlp{0x1p-23};

// `value`: 2^exponent. `low` and `high`: bounds of a kernel's result; `high` is at most 1. A kernel's
// exponent differs by at most `error` plus its rounding error, kUlp * |exponent|. A kernel's exp2 errs by at
// most 2 ulp (PTX ISA: ex2.approx.ftz.f32); power() allows 4 ulp.
struct Power {
  double value, low, high;
};
Power power(double exponent, double error) {
  const double wide = error + kUlp * std::abs(exponent);
  return {std::exp2(exponent), std::exp2(exponent - wide) * (1 - 4 * kUlp),
          std::min(1.0, std::exp2(exponent + wide) * (1 + 4 * kUlp))};
}
Power exact_power(double exponent) {
  const double value = std::exp2(exponent);
  return {value, value, value};
}
double slack_of(const Power& p) { return std::max(p.high - p.value, p.value - p.low); }

// Returns the reference R that pages of a head normally use: exponentials are 2^(score - R) (page.cuh).
double head_reference(double sink) {
  constexpr double kHeadroom{80}, kLowestSink{-0x1p16};
  return std::max(std::ceil(sink), kLowestSink) + kHeadroom;
}

// The score q . k. The softmax uses it as an exponent of 2, because queries include kQueryFactor.
struct Score {
  double value, error;
};
// Returns a score and its error bound. Per 16 elements of a head, the tensor cores truncate 18 numbers
// (relative_bound() in matrix.cpp).
Score score_of(const Rounded* query, const uint16_t* key_bits, const Rounded* own_key) {
  double sum = 0, magnitudes = 0, slack = 0;
  for (int i = 0; i < kHeadDim; ++i) {
    const double q = query[i].value, k = float_of(key_bits[i]);
    sum += q * k;
    magnitudes += std::abs(q * k);
    slack += std::abs(k) * double{query[i].slack};
    if (own_key) slack += (std::abs(q) + double{query[i].slack}) * double{own_key[i].slack};
  }
  return {sum, 4 * 18 * kUlp * magnitudes + slack + 0x1p-120};
}

struct Head {
  const AttendCase& c;
  const TestCache& cache;
  const RotatedRows& rotated;
  size_t row;
  int head;
  double sink;  // the head's sink times log2(e)

  int kv_head() const { return head / (c.num_heads / c.num_kv_heads); }
  int last() const { return cache.rows()[row].position; }
  int first() const { return c.window ? std::max(0, last() - c.window + 1) : 0; }
  const uint16_t* bits(int position, int which) const {
    const CacheRow& own_row = cache.rows()[row];
    return cache.bits().data() +
           cache.place(own_row.run, slot_of(position, last(), own_row.path), kv_head(), which);
  }
  const Rounded* own(int position, int which) const {
    return c.writes_kv() && position == last() ? rotated.key_or_value(row, kv_head(), which) : nullptr;
  }
};

// Computes one head of one row. The kernels compute exponentials page by page (32 positions), relative to a
// whole number R: the larger of kHeadroom above the head's sink, and the page's largest score rounded up.
// The kernels round exponentials to bfloat16 before they multiply and add them. The factors with which they
// add the sums of pages and chunks are powers of two; only the sink's factor is not. A kernel's R of a page
// may differ by 1 from the R computed here: a kernel keeps the head's R while exponentials are below 2, and
// it may round a score near a whole number the other way. The page's exponentials are then doubled or halved,
// and their factor is halved or doubled, so all roundings stay the same. `relative` bounds the roundings of
// sums: 16 mma instructions, of 16 positions each, in a chunk of 8 pages, and the sum over chunks.
void attend_head(const Head& h, Attended* out) {
  std::vector<Score> scores;
  for (int position = h.first(); position <= h.last(); ++position)
    scores.push_back(score_of(h.rotated.query(h.row, h.head), h.bits(position, 0), h.own(position, 0)));
  const auto score_at = [&](int position) { return scores[position - h.first()]; };

  const int first_page = h.first() / kPagePositions, num_pages = h.last() / kPagePositions - first_page + 1;
  const auto begin_of = [&](int page) { return std::max(h.first(), (first_page + page) * kPagePositions); };
  const auto end_of = [&](int page) {
    return std::min(h.last() + 1, (first_page + page + 1) * kPagePositions);
  };
  std::vector<double> references(num_pages, head_reference(h.sink));
  for (int page = 0; page < num_pages; ++page) {
    double& reference = references[page];
    for (int position = begin_of(page); position < end_of(page); ++position)
      reference = std::max(reference, std::ceil(score_at(position).value));
  }
  const double all = std::max(h.sink, std::ranges::max(references)), sink_error = kUlp * std::abs(h.sink);

  const double relative = (16 * 18 + 16 + num_pages / 8.0) * kUlp;
  std::array<double, kHeadDim> sums{}, bounds{};
  double total = 0, total_bound = 0, largest_value = 0;
  for (int page = 0; page < num_pages; ++page) {
    const double reference = references[page];
    const Power share = all > h.sink ? exact_power(reference - all) : power(reference - all, sink_error);
    for (int position = begin_of(page); position < end_of(page); ++position) {
      const Power p = power(score_at(position).value - reference, score_at(position).error);
      const Rounded rounded = round_bf16(p.value, slack_of(p));
      total += share.value * double{rounded.value};
      total_bound += slack_of(share) * double{rounded.value} + share.high * double{rounded.slack} +
                     relative * share.value * double{rounded.value};
      const uint16_t* values = h.bits(position, 1);
      const Rounded* own = h.own(position, 1);
      for (size_t i = 0; i < kHeadDim; ++i) {
        const double v = float_of(values[i]), magnitude = std::abs(v) + (own ? double{own[i].slack} : 0);
        sums[i] += share.value * double{rounded.value} * v;
        bounds[i] +=
            magnitude * (slack_of(share) * double{rounded.value} + share.high * double{rounded.slack} +
                         relative * share.value * double{rounded.value});
        if (own) bounds[i] += share.value * double{rounded.value} * double{own[i].slack};
        largest_value = std::max(largest_value, magnitude);
      }
    }
  }
  const Power sink = all > h.sink ? power(h.sink - all, sink_error) : exact_power(0);
  total += sink.value;
  total_bound += slack_of(sink) + relative * sink.value;
  // The largest error due to exponentials and products below the smallest normal float32, which kernels may
  // flush to zero.
  const double lost = static_cast<double>(scores.size()) * largest_value * 0x1p-118 + 0x1p-120;
  for (size_t i = 0; i < kHeadDim; ++i) {
    const double value = sums[i] / total;
    out[i] = {value, (bounds[i] + lost + std::abs(value) * (total_bound + relative * total)) /
                         std::max(total - total_bound, total / 2)};
  }
}

}  // namespace

// Rotates elements i and i + D / 2 of q and k by the angle position * frequency_i, a float32 product. Errors
// of the kernels: cosf and sinf err by up to 2 ulp. One rounding each follows for cosine or sine times the
// concentration (YaRN's factor), for that number times an element of q or k, and for the sum of two such
// products. For queries, kQueryFactor and the product with it are rounded too.
RotatedRows rotated_rows(const AttendCase& c, const std::vector<CacheRow>& rows,
                         const std::vector<float>& parts, const RopeFrequencies& rope) {
  const size_t width = c.width();
  constexpr size_t kHalf{kHeadDim / 2};
  std::vector<Rounded> numbers(rows.size() * width);
  host_threads().for_each(static_cast<ptrdiff_t>(rows.size()), [&](ptrdiff_t row, int) {
    const size_t first = row * width;
    const auto joined = [&](size_t i) { return parts[first + i] + parts[parts.size() / 2 + first + i]; };
    const auto round_kv = c.kv == Format::kE4m3 ? round_e4m3 : round_bf16;
    for (int head = 0; head < c.num_heads + 2 * c.num_kv_heads; ++head) {
      const bool is_query = head < c.num_heads;
      const auto round_head = is_query ? round_bf16 : round_kv;
      const double factor = is_query ? kQueryFactor : 1;
      for (size_t i = 0; i < kHalf; ++i) {
        const size_t low = head * kHeadDim + i, high = low + kHalf;
        if (head >= c.num_heads + c.num_kv_heads) {
          numbers[first + low] = round_kv(double{joined(low)}, 0);
          numbers[first + high] = round_kv(double{joined(high)}, 0);
          continue;
        }
        const auto angle = double{static_cast<float>(rows[row].position) * rope.frequencies[i]};
        const double cosine = std::cos(angle) * double{rope.concentration},
                     sine = std::sin(angle) * double{rope.concentration};
        const double a = joined(low), b = joined(high);
        const auto rounded = [&](double x, double y) {
          return round_head(factor * (x + y),
                            factor * ((is_query ? 7 : 5) * kUlp * (std::abs(x) + std::abs(y))) + 0x1p-147);
        };
        numbers[first + low] = rounded(a * cosine, -b * sine);
        numbers[first + high] = rounded(b * cosine, a * sine);
      }
    }
  });
  return {c, std::move(numbers)};
}

void RotatedRows::put_into(TestCache& cache) const {
  for (size_t row = 0; row < cache.rows().size(); ++row)
    for (int head = 0; head < num_kv_heads_; ++head)
      for (const int which : {0, 1}) {
        const Rounded* from = key_or_value(row, head, which);
        const size_t to = cache.place(cache.rows()[row].run, cache.rows()[row].slot, head, which);
        for (size_t i = 0; i < kHeadDim; ++i) cache.bits()[to + i] = to_bf16(from[i].value).bits;
      }
}

std::vector<Attended> attended(const AttendCase& c, const TestCache& cache, const RotatedRows& rotated,
                               const std::vector<float>& sinks) {
  const size_t num_heads = c.num_heads;
  std::vector<Attended> out(cache.rows().size() * num_heads * kHeadDim);
  host_threads().for_each(static_cast<ptrdiff_t>(cache.rows().size() * num_heads), [&](ptrdiff_t item, int) {
    const size_t row = item / num_heads, head = item % num_heads;
    attend_head({c, cache, rotated, row, static_cast<int>(head), double{sinks[head]} * kLog2E},
                out.data() + item * kHeadDim);
  });
  return out;
}

}  // namespace nibble::cuda::verify
