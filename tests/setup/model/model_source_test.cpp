#include "setup/model/model_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>

#include "core/errors/error.h"
#include "tests/error_of.h"
#include "tests/folders.h"

namespace nibble {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class ModelSourceTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    home_ = std::getenv("HOME");
    for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME", "OLLAMA_MODELS"})
      unsetenv(name);
    setenv("HOME", (folder_ / "home").c_str(), 1);
    setenv("HF_HOME", (folder_ / "hf").c_str(), 1);
    places_.model_folders = {folder_ / "models"};
  }
  void TearDown() override {
    for (const char* name :
         {"HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME", "OLLAMA_MODELS", "A_FOLDER"})
      unsetenv(name);
    setenv("HOME", home_.c_str(), 1);
    fs::remove_all(folder_);
  }
  // Writes a model into Ollama's store. `name`: the model's folder, relative to manifests; `tag`: its file
  // there. Returns the path of the blob.
  fs::path write_ollama(const fs::path& store, const std::string& name, const std::string& tag) {
    const std::string digest(64, 'a');
    write(store / "manifests" / name / tag,
          R"({"layers": [{"mediaType": "application/vnd.ollama.image.license", "digest": "sha256:0"},
                         {"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:)" +
              digest + "\"}]}");
    return folder_ / store / "blobs" / ("sha256-" + digest);
  }
  void write(const fs::path& file, const std::string& text) {
    fs::create_directories((folder_ / file).parent_path());
    std::ofstream(folder_ / file) << text;
  }
  std::string refusal(const std::string& argument) {
    return error_of([&] { find_model(argument, places_); });
  }

  std::string home_;
  fs::path folder_ = fs::path(testing::TempDir()) / "nibble_model_source";
  Places places_;
};

TEST_F(ModelSourceTest, AFolderOrFileIsTakenAsItIs) {
  write("checkpoint/model.safetensors", "");
  const std::string file = (folder_ / "checkpoint/model.safetensors").string();
  EXPECT_EQ(find_model(file, places_).path, file);
  EXPECT_EQ(find_model(file, places_).folder(), folder_ / "checkpoint");
  EXPECT_EQ(find_model((folder_ / "checkpoint").string(), places_).folder(), folder_ / "checkpoint");
}

TEST_F(ModelSourceTest, ABundledNameIsFoundInTheFolderOfModels) {
  write("models/tiny-gpt-oss/config.json", "{}");
  EXPECT_EQ(find_model("tiny", places_).path, folder_ / "models/tiny-gpt-oss");
}

TEST_F(ModelSourceTest, ACacheEntryIsTheSnapshotThatMainNames) {
  const fs::path entry = "hf/hub/models--openai--gpt-oss-20b";
  write(entry / "refs/main", "abc123\n");
  write(entry / "snapshots/abc123/config.json", "{}");
  write(entry / "snapshots/other/config.json", "{}");
  EXPECT_EQ(find_model("openai/gpt-oss-20b", places_).path, folder_ / entry / "snapshots/abc123");
}

TEST_F(ModelSourceTest, ACacheEntryWithoutItsSnapshotIsNone) {
  write("hf/hub/models--openai--gpt-oss-20b/refs/main", "abc123");
  EXPECT_THAT(refusal("openai/gpt-oss-20b"),
              AllOf(HasSubstr("not found: looked for"), testing::Not(HasSubstr("did you mean"))));
}

TEST_F(ModelSourceTest, ACacheEntryWithoutRefsIsItsNewestSnapshot) {
  const fs::path snapshots = "hf/hub/models--openai--gpt-oss-20b/snapshots";
  write(snapshots / "only/config.json", "{}");
  EXPECT_EQ(find_model("openai/gpt-oss-20b", places_).path, folder_ / snapshots / "only");

  // In the order of names, the newest snapshot is neither the first nor the last.
  write(snapshots / "before/config.json", "{}");
  write(snapshots / "zero/config.json", "{}");
  const auto now = fs::file_time_type::clock::now();
  fs::last_write_time(folder_ / snapshots / "only", now);
  fs::last_write_time(folder_ / snapshots / "before", now - std::chrono::hours(1));
  fs::last_write_time(folder_ / snapshots / "zero", now - std::chrono::hours(2));
  EXPECT_EQ(find_model("openai/gpt-oss-20b", places_).path, folder_ / snapshots / "only");
}

TEST_F(ModelSourceTest, ARevisionIsABranchATagOrTheBeginningOfACommit) {
  const fs::path entry = "hf/hub/models--openai--gpt-oss-20b";
  write(entry / "refs/main", "abc1234567");
  write(entry / "refs/pr/3", "def1234567\n");
  write(entry / "snapshots/abc1234567/config.json", "{}");
  write(entry / "snapshots/def1234567/config.json", "{}");
  const auto path = [&](const std::string& revision) {
    return find_model("openai/gpt-oss-20b@" + revision, places_).path;
  };
  EXPECT_EQ(path("main"), folder_ / entry / "snapshots/abc1234567");
  EXPECT_EQ(path("pr/3"), folder_ / entry / "snapshots/def1234567");
  EXPECT_EQ(path("def1234567"), folder_ / entry / "snapshots/def1234567");
  EXPECT_EQ(path("def1234"), folder_ / entry / "snapshots/def1234567");
  for (const char* revision : {"def123", "nowhere", "", "../refs/main", "."})
    EXPECT_THAT(refusal("openai/gpt-oss-20b@" + std::string(revision)), HasSubstr("refs and snapshots"))
        << revision;
}

TEST_F(ModelSourceTest, TheCacheIsWhereHuggingFacesVariablesSay) {
  const auto cached_in = [&](const fs::path& hub) {
    const fs::path snapshot = hub / "models--openai--gpt-oss-20b/snapshots/a";
    write(snapshot / "config.json", "{}");
    EXPECT_EQ(find_model("openai/gpt-oss-20b", places_).path, folder_ / snapshot);
  };
  unsetenv("HF_HOME");
  cached_in("home/.cache/huggingface/hub");
  setenv("XDG_CACHE_HOME", (folder_ / "xdg").c_str(), 1);
  cached_in("xdg/huggingface/hub");
  setenv("HF_HOME", "~/hf", 1);
  cached_in("home/hf/hub");
  setenv("A_FOLDER", (folder_ / "here").c_str(), 1);
  setenv("HF_HOME", "${A_FOLDER}/$NOT_SET/x", 1);
  cached_in("here/$NOT_SET/x/hub");
  setenv("HUGGINGFACE_HUB_CACHE", "$A_FOLDER/old", 1);
  cached_in("here/old");
  setenv("HF_HUB_CACHE", (folder_ / "new").c_str(), 1);
  cached_in("new");
}

TEST_F(ModelSourceTest, AFolderWithOneGgufModelIsThatFile) {
  write("models/a/weights.gguf", "");
  write("models/a/README.md", "");
  EXPECT_EQ(find_model((folder_ / "models/a").string(), places_).path, folder_ / "models/a/weights.gguf");
  write("hf/hub/models--unsloth--x/snapshots/a/Q8_0/x-00001-of-00002.gguf", "");
  write("hf/hub/models--unsloth--x/snapshots/a/Q8_0/x-00002-of-00002.gguf", "");
  EXPECT_EQ(find_model("unsloth/x", places_).path,
            folder_ / "hf/hub/models--unsloth--x/snapshots/a/Q8_0/x-00001-of-00002.gguf");
  write("home/.lmstudio/models/lmstudio-community/x-GGUF/x.gguf", "");
  EXPECT_EQ(find_model("lmstudio-community/x-GGUF", places_).path,
            folder_ / "home/.lmstudio/models/lmstudio-community/x-GGUF/x.gguf");

  write("models/a/sub/other.gguf", "");
  EXPECT_THAT(refusal((folder_ / "models/a").string()),
              HasSubstr("has 2 models; give the path of one: sub/other.gguf, weights.gguf"));
  write("models/a/model.safetensors", "");  // the folder is a checkpoint, so GGUF files in it are copies
  EXPECT_EQ(find_model((folder_ / "models/a").string(), places_).path, folder_ / "models/a");
}

TEST_F(ModelSourceTest, NamesOfOllamaAreFoundInItsStore) {
  const fs::path blob = write_ollama("home/.ollama/models", "registry.ollama.ai/library/gpt-oss", "20b");
  EXPECT_EQ(find_model("gpt-oss:20b", places_).path, blob);
  EXPECT_THAT(
      refusal("gpt-oss:120b"),
      HasSubstr(
          (folder_ / "home/.ollama/models/manifests/registry.ollama.ai/library/gpt-oss/120b").string()));
  EXPECT_THAT(refusal("gpt-oss"), HasSubstr("not found"));

  setenv("OLLAMA_MODELS", (folder_ / "store").c_str(), 1);
  EXPECT_THAT(refusal("gpt-oss:20b"), HasSubstr("not found"));
  const fs::path other = write_ollama("store", "registry.ollama.ai/library/gpt-oss", "latest");
  EXPECT_EQ(find_model("gpt-oss", places_).path, other);
  write_ollama("store", "registry.ollama.ai/someone/tuned", "v1");
  EXPECT_EQ(find_model("someone/tuned:v1", places_).path, other);
  write_ollama("store", "hf.co/unsloth/gpt-oss-20b-GGUF", "Q4_K_M");
  EXPECT_EQ(find_model("hf.co/unsloth/gpt-oss-20b-GGUF:Q4_K_M", places_).path, other);
  for (const char* name : {"../../x:20b", "a//b:c", "gpt-oss:..", "gpt-oss:", "a/b/c/d:e"})
    EXPECT_THAT(refusal(name), HasSubstr("not found")) << name;
}

TEST_F(ModelSourceTest, SyntheticModelsHaveAConfigurationAndNoFiles) {
  const ModelSource source = find_model("synthetic:gpt-oss-120b", places_);
  ASSERT_TRUE(source.synthetic);
  EXPECT_EQ(source.synthetic->num_experts, 128);
  EXPECT_TRUE(source.path.empty());

  const std::string config = test::source_path("models/tiny-gpt-oss/config.json");
  EXPECT_EQ(find_model("synthetic:" + config, places_).synthetic->hidden, 256);
}

TEST_F(ModelSourceTest, ARefusalSaysWhereItLooked) {
  EXPECT_THAT(refusal("tiny"), HasSubstr((folder_ / "models/tiny-gpt-oss").string()));
  EXPECT_THAT(refusal("openai/gpt-oss-20b"),
              HasSubstr((folder_ / "hf/hub/models--openai--gpt-oss-20b").string()));
  EXPECT_THAT(refusal("synthetic:gpt-oss-7b"), AllOf(HasSubstr("gpt-oss-20b"), HasSubstr("config.json")));
  for (const char* argument :
       {"", "no-such-model", "a-folder/that-is/not-here", "/no-such-file", "no-such-file/"}) {
    EXPECT_THAT(refusal(argument), HasSubstr("Expected a folder")) << argument;
  }
}

TEST_F(ModelSourceTest, ARefusalSaysWhichNamesThereAreAndHowToGetTheFiles) {
  EXPECT_THAT(
      refusal("gpt-oss-20b"),
      AllOf(HasSubstr("tiny"), HasSubstr("openai/gpt-oss-120b"), HasSubstr("synthetic:gpt-oss-20b"),
            HasSubstr("hf download openai/gpt-oss-20b "), HasSubstr("13.8 GB"), HasSubstr("Apache-2.0")));
  EXPECT_THAT(refusal("openai/gpt-oss-120b"), HasSubstr("hf download openai/gpt-oss-120b "));
}

}  // namespace
}  // namespace nibble
