// Tests downloads, unpacking of archives, and the choice of the data directory.
#include "train/data/fetch.h"

#include <cstdlib>
#include <optional>

#include "engine/files/file.h"
#include "tests/harness/file_test.h"
#include "tests/train/data/http_server.h"
#include "train/system/digest.h"

namespace foldgrad::testing {
namespace {

const std::string kContent = "What a long file this is, from beginning to end.";

class DownloadTest : public FileTest {
 protected:
  void SetUp() override {
    if (!python_available()) GTEST_SKIP() << "there is no python3";
    write_bytes(served_ / "file", kContent);
    server_.emplace(served_.path());
    setenv("no_proxy", "127.0.0.1", 1);
    write_bytes(home_ / ".curlrc", "include\n");  // if curl read this, it would write HTTP headers into the file
    setenv("HOME", home_.path().c_str(), 1);
  }
  Download wanted(const std::vector<std::string>& paths) {
    Download d{{}, sha256(kContent), files_ / "new/file"};
    for (const std::string& path : paths) d.urls.push_back(server_->url(path));
    return d;
  }
  std::string log() { return read_bytes(served_ / "log"); }

  TemporaryDirectory served_, home_;
  std::optional<HttpServer> server_;
};

using DownloadWithoutCurl = FileTest;

TEST_F(DownloadWithoutCurl, SaysWhatIsMissing) {
  const std::string path = getenv("PATH");
  const Download wanted{{"http://127.0.0.1:1/file"}, sha256(kContent), files_ / "file"};
  setenv("PATH", (files_ / "empty").c_str(), 1);
  EXPECT_EQ(message<FileError>([&] { download(wanted); }), "curl: not found; install curl (apt-get install curl)");
  setenv("PATH", path.c_str(), 1);
}

TEST_F(DownloadTest, TakesTheFirstMirrorThatHasTheFile) {
  download(wanted({"plain/absent", "plain/file"}));
  EXPECT_EQ(bytes("new/file"), kContent);
  EXPECT_FALSE(exists("new/file.part"));
  download(wanted({"plain/absent"}));  // needs no server, since the file exists
  EXPECT_EQ(log(), "/plain/file \n");
}

TEST_F(DownloadTest, APartIsResumedWhereItCanBe) {
  const std::string ten = kContent.substr(0, 10), longer = kContent + "!", other = kContent.substr(1) + "?";
  struct Case {
    const char* path;
    std::string part, requests;
  };
  for (const auto& [path, part, requests] : {Case{"range/file", ten, "/range/file bytes=10-\n"},
                                             // The part is complete, so it needs no server.
                                             {"plain/absent", kContent, ""},
                                             {"plain/file", ten, "/plain/file bytes=10-\n/plain/file \n"},
                                             {"range/file", longer, "/range/file \n"},
                                             {"range/file", other, "/range/file \n"},
                                             {"range/file", kContent + kContent, "/range/file \n"},
                                             {"plain/file", longer, "/plain/file bytes=49-\n/plain/file \n"},
                                             {"plain/file", other, "/plain/file bytes=48-\n/plain/file \n"},
                                             {"bare/file", longer, "/bare/file \n"},
                                             {"bare/file", other, "/bare/file \n"}}) {
    for (const std::string& old : {files_ / "new/file", served_ / "log"}) std::filesystem::remove(old);
    write("new/file.part", part);
    download(wanted({path}));
    EXPECT_EQ(bytes("new/file"), kContent) << path << " " << part;
    EXPECT_FALSE(exists("new/file.part"));
    EXPECT_EQ(requests.empty() ? "" : log(), requests) << path << " " << part;
  }
}

TEST_F(DownloadTest, RefusesAnotherDigestAndNamesAllThatOneNeeds) {
  Download other = wanted({"plain/file", "plain/absent"});
  other.sha256 = std::string(64, '0');
  EXPECT_EQ(message<FileError>([&] { download(other); }),
            other.path + ": could not be fetched:\n  " + other.urls[0] + ": has SHA-256 " + sha256(kContent) + "\n  " +
                other.urls[1] + ": The requested URL returned error: 404\n  The file must have SHA-256 " +
                other.sha256 + ". If you already have the file, pass --from-file FILE, or copy it to the path above.");
  EXPECT_FALSE(exists("new/file"));
  EXPECT_FALSE(exists("new/file.part"));
}

TEST_F(DownloadTest, ADeadLinkIsAMessage) {
  Download dead = wanted({"plain/file"});
  server_.reset();
  const std::string text = message<FileError>([&] { download(dead); });
  EXPECT_TRUE(contains(text, dead.urls[0] + ": Failed to connect"));
  EXPECT_TRUE(contains(text, dead.sha256));
}

using TakeFile = FileTest;

TEST_F(TakeFile, CopiesWhatHasTheDigest) {
  write("mine", kContent);
  const Download wanted{{}, sha256(kContent), files_ / "a/b"};
  take_file(files_ / "mine", wanted);
  EXPECT_EQ(bytes("a/b"), kContent);
  write("mine", "else");
  EXPECT_EQ(error_of<FileError>([&] { take_file(files_ / "mine", wanted); }),
            "@mine: must have SHA-256 " + wanted.sha256 + ", got " + sha256("else"));
}

// A data set whose archive is like the published ones: a folder with two data files and a readme.
class FetchImages : public FileTest {
 protected:
  FetchImages() {
    write("pictures/train.bin", "twelve");
    write("pictures/test.bin", "three");
    write("pictures/readme.html", "see there");
    pack();
  }
  void pack() {
    ASSERT_EQ(std::system(("tar -C " + files_.path() + " -czf \"" + archive_ + "\" pictures").c_str()), 0);
    set_.archives = {{{}, sha256(read_bytes(archive_)), "pictures.tar.gz"}};
  }
  std::string error(const std::vector<std::string>& files) {
    return message<FileError>([&] { fetch_images(set_, files, root_); });
  }
  bool there(const std::string& file) { return std::filesystem::exists(root_ + "/" + file); }

  const std::string archive_ = files_ / "it's mine.tar.gz", root_ = files_ / "it's the root/pictures";
  DataSet set_{.name = "small",
               .about = "",
               .directory = "pictures",
               .archives = {},
               .digests = {{"train.bin", sha256("twelve")}, {"test.bin", sha256("three")}}};
};

TEST_F(FetchImages, PutsWhatTheArchiveHoldsInPlace) {
  fetch_images(set_, {archive_}, root_);
  EXPECT_EQ(read_bytes(root_ + "/train.bin"), "twelve");
  EXPECT_EQ(read_bytes(root_ + "/test.bin"), "three");
  EXPECT_EQ(read_bytes(root_ + "/readme.html"), "see there");
  EXPECT_FALSE(there("unpacked"));
  // If all files exist, the archive is not needed again.
  std::filesystem::remove_all(root_ + "/archives");
  fetch_images(set_, {}, root_);
  EXPECT_FALSE(there("archives"));
  // fetch_images() keeps the archive, and unpacks missing files from it.
  std::filesystem::remove(root_ + "/test.bin");
  fetch_images(set_, {archive_}, root_);
  std::filesystem::remove(root_ + "/train.bin");
  fetch_images(set_, {}, root_);
  EXPECT_EQ(read_bytes(root_ + "/test.bin"), "three");
  EXPECT_EQ(read_bytes(root_ + "/train.bin"), "twelve");
}

TEST_F(FetchImages, FilesInTheArchiveAreComparedBeforeAnyIsPutInPlace) {
  write("pictures/train.bin", "dozen!");
  pack();
  EXPECT_EQ(error({archive_}), root_ + "/unpacked/pictures/train.bin: must have SHA-256 " + sha256("twelve") +
                                   ", got " + sha256("dozen!"));
  for (const char* file : {"unpacked", "train.bin", "test.bin", "readme.html"}) EXPECT_FALSE(there(file)) << file;
  std::filesystem::remove(files_ / "pictures/train.bin");
  pack();
  EXPECT_EQ(error({archive_}), root_ + "/unpacked/pictures/train.bin: cannot be opened: No such file or directory");
}

TEST_F(FetchImages, AnArchiveThatTarRefusesLeavesNothing) {
  write_bytes(archive_, "no archive");
  set_.archives[0].sha256 = sha256("no archive");
  EXPECT_EQ(error({archive_}), root_ + "/archives/pictures.tar.gz: cannot be unpacked by tar");
  EXPECT_FALSE(there("unpacked"));
}

TEST_F(FetchImages, TheDirectoryMayHaveAColon) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(files_.path());
  EXPECT_EQ(message<FileError>([&] { fetch_images(set_, {archive_}, "a:b"); }), "no error");
  std::filesystem::current_path(before);
  EXPECT_EQ(bytes("a:b/train.bin"), "twelve");
}

TEST_F(FetchImages, AnotherFileInTheirPlaceStays) {
  fetch_images(set_, {archive_}, root_);
  write_bytes(root_ + "/test.bin", "mine");
  EXPECT_EQ(error({archive_}),
            root_ + "/test.bin: already exists but does not belong to small: remove it, or choose another --data-dir");
  EXPECT_EQ(read_bytes(root_ + "/test.bin"), "mine");
}

TEST(DataRoot, FlagThenVariablesThenHome) {
  const auto set = [](const char* name, const char* value) { ASSERT_EQ(setenv(name, value, 1), 0); };
  set("HOME", "/home/a");
  set("FOLDGRAD_DATA", "");
  set("XDG_CACHE_HOME", "");
  EXPECT_EQ(data_root(""), "/home/a/.cache/foldgrad");
  set("XDG_CACHE_HOME", "/cache");
  EXPECT_EQ(data_root(""), "/cache/foldgrad");
  set("FOLDGRAD_DATA", "/data");
  EXPECT_EQ(data_root(""), "/data");
  EXPECT_EQ(data_root("/flag"), "/flag");
  EXPECT_EQ(data_directory("", "/flag"), "/flag");
  EXPECT_EQ(data_directory("multi30k", "/flag"), "/flag/multi30k");
  EXPECT_EQ(data_directory("/elsewhere", "/flag"), "/elsewhere");
}

}  // namespace
}  // namespace foldgrad::testing
