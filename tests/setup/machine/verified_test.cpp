// Tests where the report of `nibble verify` is stored, and how it is read.
#include "setup/machine/verified.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "tests/error_of.h"

namespace nibble {
namespace {

namespace fs = std::filesystem;

// Sets or removes an environment variable during this object's lifetime.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    value ? setenv(name, value, 1) : unsetenv(name);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

const DeviceFacts kGpu{.name = "NVIDIA GB10", .uuid = "GPU-0123-ab"};

TEST(Verified, IsKeptWhereStateBelongs) {
  const Variable home("HOME", "/home/someone");
  {
    const Variable state("XDG_STATE_HOME", "/var/state");
    EXPECT_EQ(verified_path(kGpu), "/var/state/nibble/verified-GPU-0123-ab.json");
  }
  for (const char* not_set : {static_cast<const char*>(nullptr), "", "relative/is/ignored"}) {
    const Variable state("XDG_STATE_HOME", not_set);
    EXPECT_EQ(verified_path(kGpu), "/home/someone/.local/state/nibble/verified-GPU-0123-ab.json");
    const Variable no_home("HOME", nullptr);
    EXPECT_EQ(verified_path(kGpu), "");
  }
}

TEST(Verified, AGpuWithoutUuidHasItsNameThere) {
  const Variable state("XDG_STATE_HOME", "/s");
  EXPECT_EQ(verified_path({.name = "NVIDIA RTX 5090 / 32 GB"}),
            "/s/nibble/verified-NVIDIA-RTX-5090---32-GB.json");
}

class VerifiedFile : public testing::Test {
 protected:
  ~VerifiedFile() override { fs::remove(path_); }
  void write(const std::string& text) { std::ofstream(path_) << text; }

  const fs::path path_{fs::path(testing::TempDir()) / "nibble_verified_test.json"};
};

TEST_F(VerifiedFile, HasTheResultOfEachRowAndProbe) {
  write(R"({"date": "2026-11-22T02:36:02Z", "nibble": {"version": "0.1.0", "commit": "abcdef"}, "machine": {},
            "probes": [{"probe": "blocks/places", "result": "twin", "found": "x", "figures": {}}],
            "kernels": [{"backend": "cuda", "kernel": "qkv/BF16", "result": "ok"},
                        {"backend": "cuda", "kernel": "embed/BF16", "result": "crashed"}]})");
  const std::optional<Verified> verified = read_verified(path_);
  ASSERT_TRUE(verified);
  EXPECT_EQ(verified->date, "2026-11-22T02:36:02Z");
  EXPECT_EQ(verified->commit, "abcdef");
  EXPECT_THAT(verified->kernels,
              testing::ElementsAre(testing::Pair("embed/BF16", "crashed"), testing::Pair("qkv/BF16", "ok")));
  EXPECT_THAT(verified->probes, testing::ElementsAre(testing::Pair("blocks/places", "twin")));
}

TEST_F(VerifiedFile, SaysWhetherTheProgramHadChangesSinceItsCommit) {
  write(R"({"date": "d", "nibble": {"commit": "abcdef", "dirty": true}, "probes": [], "kernels": []})");
  EXPECT_EQ(read_verified(path_)->commit, "abcdef-dirty");
  write(R"({"date": "d", "nibble": {"commit": "abcdef", "dirty": null}, "probes": [], "kernels": []})");
  EXPECT_EQ(read_verified(path_)->commit, "abcdef");
}

TEST_F(VerifiedFile, NoFileIsNoReport) {
  EXPECT_FALSE(read_verified(path_));
  EXPECT_FALSE(read_verified({}));
}

TEST_F(VerifiedFile, AnythingElseIsRefusedWithItsName) {
  for (const char* text :
       {"", "nonsense", "[]", "{}", R"({"date": 1})",
        R"({"date": "d", "nibble": {"commit": "c"}, "probes": {}, "kernels": []})",
        R"({"date": "d", "nibble": {"commit": "c"}, "probes": [], "kernels": [1]})",
        R"({"date": "d", "nibble": {"commit": "c"}, "probes": [], "kernels": [{"kernel": "k"}]})"}) {
    write(text);
    EXPECT_THAT(
        error_of([&] { read_verified(path_); }),
        testing::AllOf(testing::HasSubstr(path_.string()), testing::HasSubstr("run nibble verify again")))
        << text;
  }
}

TEST(Verified, SaysOfEachRowWhetherItWasProvenHere) {
  const Verified report{.date = "2026-11-22T02:36:02Z",
                        .commit = "c",
                        .kernels = {{"qkv/BF16", "ok"}, {"qkv/FP8", "wrong"}},
                        .probes = {}};
  EXPECT_EQ(proof_of(report, "qkv/BF16", "c"), "proven here on 2026-11-22");
  EXPECT_EQ(proof_of(report, "qkv/FP8", "c"), "wrong here on 2026-11-22");
  EXPECT_EQ(proof_of(report, "qkv/MXFP4", "c"), "not verified here");
  EXPECT_EQ(proof_of(std::nullopt, "qkv/BF16", "c"), "not verified here");
}

TEST(Verified, NamesTheCommitThatWasVerifiedWhereItIsAnother) {
  const Verified report{
      .date = "2026-11-22T02:36:02Z", .commit = "c", .kernels = {{"qkv/BF16", "ok"}}, .probes = {}};
  EXPECT_EQ(proof_of(report, "qkv/BF16", "d"), "proven here on 2026-11-22 with commit c");
  EXPECT_EQ(proof_of(report, "qkv/MXFP4", "d"), "not verified here");
}

TEST(Verified, AnUnknownCommitIsNeverTheSameCommit) {
  const Verified report{
      .date = "2026-11-22T02:36:02Z", .commit = "unknown", .kernels = {{"qkv/BF16", "ok"}}, .probes = {}};
  EXPECT_EQ(proof_of(report, "qkv/BF16", "unknown"), "proven here on 2026-11-22 with commit unknown");
}

}  // namespace
}  // namespace nibble
