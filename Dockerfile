# One static binary and the certificates it needs to talk TLS; nothing else.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o /out/approvalbot ./cmd/approvalbot

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/approvalbot /approvalbot
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["/approvalbot"]
CMD ["serve", "--config", "/etc/approvalbot/approvalbot.yaml"]
