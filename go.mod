module github.com/approvalbot/approvalbot

go 1.26

require github.com/gowebpki/jcs v1.0.2
