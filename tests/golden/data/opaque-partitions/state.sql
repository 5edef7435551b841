BEGIN TRANSACTION;
CREATE TABLE "_trident" (
        state TEXT NOT NULL PRIMARY KEY COLLATE NOCASE,
        topology TEXT NOT NULL, uuid TEXT NOT NULL, incarnation INTEGER NOT NULL,
        fence INTEGER NOT NULL, owner TEXT NOT NULL, columns TEXT NOT NULL,
        txid INTEGER, epoch INTEGER, attempt_id INTEGER, run_first INTEGER
    );
INSERT INTO "_trident" VALUES('sums','golden-opaque-partitions','f033c06a-53b6-4bda-8e4a-b276011ed1ba',1,1,'a5ea5a80b6f24001a43894f69abf3eb6','shelf string, sum bigint',2,1,0,2);
CREATE TABLE "sums" ("shelf" TEXT CHECK (typeof("shelf") IN ('text', 'null')), "sum" INTEGER CHECK (typeof("sum") IN ('integer', 'null')), "_key" TEXT NOT NULL PRIMARY KEY, "_txid" INTEGER NOT NULL, "_prev" INTEGER, "_born" INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO "sums" VALUES('left',6,'["left"]',2,1,1);
INSERT INTO "sums" VALUES('right',6,'["right"]',2,1,1);
COMMIT;
