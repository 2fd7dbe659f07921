#include "train/data/download.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>

#include "engine/files/file.h"
#include "tests/engine/error_message.h"
#include "tests/train/data/http_server.h"
#include "train/system/digest.h"

namespace foldgrad::testing {
namespace {

const std::string kContent = "What a long file this is, from beginning to end.";

class DownloadTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!download_available()) {
      const Download wanted{{"http://a"}, "0", files_ / "file"};
      EXPECT_EQ(message<FileError>([&] { download(wanted); }),
                wanted.path +
                    ": could not be fetched:\n  http://a: this build cannot download; install "
                    "libcurl4-openssl-dev and configure with FOLDGRAD_CURL=ON\n  The file must have SHA-256 "
                    "0. If you have it from elsewhere, give --from-file FILE, or put it there.");
      GTEST_SKIP() << "this build lacks libcurl";
    }
    if (!python_available()) GTEST_SKIP() << "there is no python3";
    write_bytes(served_ / "file", kContent);
    server_.emplace(served_.path());
    setenv("no_proxy", "127.0.0.1", 1);
  }
  Download wanted(const std::vector<std::string>& paths) {
    Download d{{}, sha256(kContent), files_ / "new/file"};
    for (const std::string& path : paths) d.urls.push_back(server_->url(path));
    return d;
  }
  std::string log() { return read_bytes(served_ / "log"); }
  bool part_is_there() { return std::filesystem::exists(files_ / "new/file.part"); }

  TemporaryDirectory served_, files_;
  std::optional<HttpServer> server_;
};

TEST_F(DownloadTest, TakesTheFirstMirrorThatHasTheFile) {
  download(wanted({"plain/absent", "plain/file"}));
  EXPECT_EQ(read_bytes(files_ / "new/file"), kContent);
  EXPECT_FALSE(part_is_there());
  download(wanted({"plain/absent"}));  // it is there already
  EXPECT_EQ(log(), "/plain/file \n");
}

TEST_F(DownloadTest, GoesOnWithAPart) {
  std::filesystem::create_directory(files_ / "new");
  write_bytes(files_ / "new/file.part", kContent.substr(0, 10));
  download(wanted({"range/file"}));
  EXPECT_EQ(read_bytes(files_ / "new/file"), kContent);
  EXPECT_EQ(log(), "/range/file bytes=10-\n");
}

TEST_F(DownloadTest, APartThatIsWholeNeedsNoServer) {
  std::filesystem::create_directory(files_ / "new");
  write_bytes(files_ / "new/file.part", kContent);
  download(wanted({"plain/absent"}));
  EXPECT_EQ(read_bytes(files_ / "new/file"), kContent);
  EXPECT_FALSE(part_is_there());
}

TEST_F(DownloadTest, APartThatIsTooLongBeginsAnew) {
  for (const char* path : {"range/file", "plain/file", "bare/file"}) {
    std::filesystem::create_directories(files_ / "new");
    for (const std::string& part : {kContent + "!", kContent.substr(1) + "?"}) {  // longer, and of the right length
      write_bytes(files_ / "new/file.part", part);
      download(wanted({path}));
      EXPECT_EQ(read_bytes(files_ / "new/file"), kContent) << path;
      std::filesystem::remove(files_ / "new/file");
    }
  }
}

TEST_F(DownloadTest, AFileThatDoesNotEndIsGivenUp) {
  Download small = wanted({"plain/file"});
  small.most_bytes = std::int64_t(kContent.size());
  download(small);
  std::filesystem::remove(small.path);
  --small.most_bytes;
  const std::string text = message<FileError>([&] { download(small); });
  EXPECT_NE(text.find(small.urls[0] + ": has more than 47 bytes\n"), std::string::npos) << text;
  EXPECT_FALSE(part_is_there());
}

TEST_F(DownloadTest, BeginsAnewWhereAServerCannotGoOn) {
  for (const char* path : {"plain/file", "range/file"}) {
    std::filesystem::create_directories(files_ / "new");
    // All of it and more, for the server that could go on.
    write_bytes(files_ / "new/file.part", path[0] == 'p' ? kContent.substr(0, 10) : kContent + kContent);
    download(wanted({path}));
    EXPECT_EQ(read_bytes(files_ / "new/file"), kContent);
    std::filesystem::remove(files_ / "new/file");
  }
}

TEST_F(DownloadTest, RefusesAnotherDigestAndNamesAllThatOneNeeds) {
  Download other = wanted({"plain/file", "plain/absent"});
  other.sha256 = std::string(64, '0');
  EXPECT_EQ(message<FileError>([&] { download(other); }),
            other.path + ": could not be fetched:\n  " + other.urls[0] + ": has SHA-256 " + sha256(kContent) + "\n  " +
                other.urls[1] + ": The requested URL returned error: 404\n  The file must have SHA-256 " +
                other.sha256 + ". If you have it from elsewhere, give --from-file FILE, or put it there.");
  EXPECT_FALSE(std::filesystem::exists(other.path));
  EXPECT_FALSE(part_is_there());
}

TEST_F(DownloadTest, ADeadLinkIsAMessage) {
  Download dead = wanted({"plain/file"});
  server_.reset();
  const std::string text = message<FileError>([&] { download(dead); });
  EXPECT_NE(text.find(dead.urls[0] + ": Failed to connect"), std::string::npos) << text;
  EXPECT_NE(text.find(dead.sha256), std::string::npos) << text;
}

TEST(TakeFile, CopiesWhatHasTheDigest) {
  const TemporaryDirectory files;
  write_bytes(files / "mine", kContent);
  const Download wanted{{}, sha256(kContent), files / "a/b"};
  take_file(files / "mine", wanted);
  EXPECT_EQ(read_bytes(files / "a/b"), kContent);
  write_bytes(files / "mine", "else");
  EXPECT_EQ(message<FileError>([&] { take_file(files / "mine", wanted); }),
            files / "mine" + ": must have SHA-256 " + wanted.sha256 + ", got " + sha256("else"));
}

}  // namespace
}  // namespace foldgrad::testing
