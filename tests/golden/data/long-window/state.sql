BEGIN TRANSACTION;
CREATE TABLE "_trident" (
        state TEXT NOT NULL PRIMARY KEY COLLATE NOCASE,
        topology TEXT NOT NULL, uuid TEXT NOT NULL, incarnation INTEGER NOT NULL,
        fence INTEGER NOT NULL, owner TEXT NOT NULL, columns TEXT NOT NULL,
        txid INTEGER, epoch INTEGER, attempt_id INTEGER, run_first INTEGER
    );
INSERT INTO "_trident" VALUES('totals','golden-long-window','711a6c15-5dac-4b1e-8c68-50748a6bf8b9',1,1,'66b1a009457c451696a6255e02290d27','total bigint',2,1,0,2);
CREATE TABLE "totals" ("total" INTEGER CHECK (typeof("total") IN ('integer', 'null')), "_key" TEXT NOT NULL PRIMARY KEY, "_txid" INTEGER NOT NULL, "_prev" INTEGER, "_born" INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO "totals" VALUES(3775,'[]',2,1225,1);
COMMIT;
