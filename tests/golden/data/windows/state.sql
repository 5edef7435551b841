BEGIN TRANSACTION;
CREATE TABLE "_trident" (
        state TEXT NOT NULL PRIMARY KEY COLLATE NOCASE,
        topology TEXT NOT NULL, uuid TEXT NOT NULL, incarnation INTEGER NOT NULL,
        fence INTEGER NOT NULL, owner TEXT NOT NULL, columns TEXT NOT NULL,
        txid INTEGER, epoch INTEGER, attempt_id INTEGER, run_first INTEGER
    );
INSERT INTO "_trident" VALUES('tumbling_rows','golden-windows','9dcbe983-2505-4c39-b604-f7a9ffbeaf20',1,1,'2a272f20e21c409ba5c12d1ec407fdba','total bigint',4,1,0,4);
INSERT INTO "_trident" VALUES('tumbling_time','golden-windows','9dcbe983-2505-4c39-b604-f7a9ffbeaf20',1,1,'fed11138334c40629f5de94d793a48c9','total bigint',4,1,0,4);
INSERT INTO "_trident" VALUES('sliding_rows','golden-windows','9dcbe983-2505-4c39-b604-f7a9ffbeaf20',1,1,'63d839a62b6a4a4b845d0bd012212d39','total bigint',3,1,0,3);
INSERT INTO "_trident" VALUES('sliding_time','golden-windows','9dcbe983-2505-4c39-b604-f7a9ffbeaf20',1,1,'9db210c4e6154884bc3df9e11c8fd8a1','total bigint',3,1,0,3);
CREATE TABLE "sliding_rows" ("total" INTEGER CHECK (typeof("total") IN ('integer', 'null')), "_key" TEXT NOT NULL PRIMARY KEY, "_txid" INTEGER NOT NULL, "_prev" INTEGER, "_born" INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO "sliding_rows" VALUES(76,'[]',3,42,1);
CREATE TABLE "sliding_time" ("total" INTEGER CHECK (typeof("total") IN ('integer', 'null')), "_key" TEXT NOT NULL PRIMARY KEY, "_txid" INTEGER NOT NULL, "_prev" INTEGER, "_born" INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO "sliding_time" VALUES(21,'[]',3,21,1);
CREATE TABLE "tumbling_rows" ("total" INTEGER CHECK (typeof("total") IN ('integer', 'null')), "_key" TEXT NOT NULL PRIMARY KEY, "_txid" INTEGER NOT NULL, "_prev" INTEGER, "_born" INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO "tumbling_rows" VALUES(69,'[]',4,57,1);
CREATE TABLE "tumbling_time" ("total" INTEGER CHECK (typeof("total") IN ('integer', 'null')), "_key" TEXT NOT NULL PRIMARY KEY, "_txid" INTEGER NOT NULL, "_prev" INTEGER, "_born" INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO "tumbling_time" VALUES(21,'[]',4,21,1);
COMMIT;
